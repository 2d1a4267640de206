"""An engine in one process: partitions in a list, looked at in any order; all that travels is packed and unpacked."""

import random
from functools import reduce

import cloudpickle

from isobag.data.partitions import Partitions


def sent(thing):
    """As it arrives at another process."""
    return cloudpickle.loads(cloudpickle.dumps(thing))


class Pieces(Partitions):
    """The frames of each partition: a list of lists."""

    def __init__(self, parts, columns, seed=0):
        self.parts, self.columns, self.n_partitions = parts, columns, len(parts)
        self._random = random.Random(seed)

    def run(self, work, combine, which=None):
        numbers = list(range(self.n_partitions)) if which is None else which.tolist()
        found = {p: sent(sent(work)(p, iter(self.parts[p]))) for p in self._shuffled(numbers)}
        return self._merged([found[p] for p in numbers], sent(combine))

    def exchange(self, split, combine, finish, join, which=None):
        numbers = list(range(self.n_partitions)) if which is None else which.tolist()
        found = {p: sent(sent(split)(p, iter(self.parts[p]))) for p in self._shuffled(numbers)}
        buckets = sorted({bucket for parts in found.values() for bucket in parts})
        merged = {b: reduce(sent(combine), [found[p][b] for p in numbers if b in found[p]]) for b in buckets}
        finished = {b: sent(sent(finish)(b, merged[b])) for b in self._shuffled(buckets)}
        return self._merged([finished[b] for b in buckets], sent(join))

    def _shuffled(self, numbers):
        return self._random.sample(numbers, len(numbers))

    def _merged(self, parts, combine):
        """Neighbours merged in whatever order."""
        while len(parts) > 1:
            i = self._random.randrange(len(parts) - 1)
            parts[i : i + 2] = [combine(parts[i], parts[i + 1])]
        return parts[0]
