"""Frames cut into partitions, whose work is sent through pickle as to another process."""

import pickle
from functools import reduce

import numpy as np

from isobag.data.partitions import Partitions


class CutFrame(Partitions):
    """A frame of pandas cut before some rows, which need not differ; each partition as one frame or several."""

    def __init__(self, frame, cuts, frames_of=lambda part: iter([part])):
        self.parts = [
            frame.iloc[a:b].reset_index(drop=True) for a, b in zip([0, *cuts], [*cuts, len(frame)], strict=True)
        ]
        self.n_partitions, self.columns = len(self.parts), [str(name) for name in frame.columns]
        self.frames_of, self.n_runs = frames_of, 0

    def run(self, work, combine, which=None):
        self.n_runs += 1
        sent = pickle.dumps((work, combine))
        numbers = np.arange(self.n_partitions) if which is None else which
        partial = []
        for number in map(int, numbers):
            own_work, own_combine = pickle.loads(sent)
            partial.append(own_work(number, self.frames_of(self.parts[number])))
        while len(partial) > 1:  # neighbours in order, as a tree
            pairs = [partial[i : i + 2] for i in range(0, len(partial), 2)]
            partial = [reduce(own_combine, pickle.loads(pickle.dumps(pair))) for pair in pairs]
        return partial[0]
