"""Frames of pandas cut into partitions."""

from itertools import pairwise

from in_pieces import FramePartitions, Pieces


class CutFrame(FramePartitions):
    """A frame cut before some rows, which need not differ; each partition as one frame or several."""

    def __init__(self, frame, cuts, frames_of=lambda part: iter([part])):
        super().__init__([frame])
        self.parts = [frame.iloc[a:b].reset_index(drop=True) for a, b in pairwise([0, *cuts, len(frame)])]
        self.n_partitions = len(self.parts)
        self.frames_of, self.n_runs = frames_of, 0

    @property
    def pieces(self):
        self.n_runs += 1
        return Pieces([list(self.frames_of(part)) for part in self.parts], self.columns, self.n_runs)

    def run(self, work, combine, which=None):
        return self.pieces.run(work, combine, which)

    def exchange(self, split, combine, finish, join, which=None):
        return self.pieces.exchange(split, combine, finish, join, which)
