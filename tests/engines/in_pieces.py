"""An engine in one process: partitions in a list, looked at in any order; all that travels is packed and unpacked."""

import random
from functools import reduce

import cloudpickle
import narwhals as nw
import pyarrow as pa

from isobag.data.partitions import Collection, Partitions


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


class FramePartitions(Collection):
    """Frames of pandas, polars or Arrow with the same columns, each of them a partition: the shortest engine."""

    def __init__(self, frames):
        self._frames = [nw.from_native(frame, eager_only=True) for frame in frames]
        self.n_partitions = len(frames)
        schema = self._frames[0].schema
        self.columns = [str(name) for name in schema]
        self.objects = [str(name) for name, kind in schema.items() if isinstance(kind, nw.Object | nw.Unknown)]

    def frames(self, number):
        return iter([self._frames[number].to_native()])

    def run(self, work, combine, which=None):
        return reduce(combine, (work(number, self.frames(number)) for number in self._numbers(which)))

    def exchange(self, split, combine, finish, join, which=None):
        buckets = {}
        for number in self._numbers(which):
            for bucket, part in split(number, self.frames(number)).items():
                buckets[bucket] = combine(buckets[bucket], part) if bucket in buckets else part
        return reduce(join, (finish(bucket, buckets[bucket]) for bucket in sorted(buckets)))

    def map(self, work, schema):
        tables = [table for number in range(self.n_partitions) for table in work(number, self.frames(number))]
        return pa.concat_tables([schema.empty_table(), *tables])

    def give(self, table):
        return table

    def types(self, names):
        first = self._frames[0]
        by_text = {str(name): name for name in first.columns}
        return [pa.string() if name in self.objects else first[by_text[name]].to_arrow().type for name in names]

    def _numbers(self, which):
        return range(self.n_partitions) if which is None else which.tolist()
