"""How the slots of a pool are cut into samples of every psi.

S slots are cut into blocks of the largest psi. A block is cut into runs of 32 (or is one run, if it is shorter); the
first 2, 4, 8, 16 and all slots of a run are samples, and so are 64, 128, ... slots one behind the other from the start
of the block, and all of it. So a slot is in one sample of each psi at most, and its number is that of a cell.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
RUN = 32


class Cut(NamedTuple):
    """Slots cut into samples: psi of each level, ascending, and the number of slots, a multiple of the largest."""

    levels: tuple[int, ...]
    n_slots: int

    @property
    def run(self) -> int:
        """Slots that are scanned one after the other, the smaller samples on the way."""
        return self.levels[-1] if len(self.levels) == 1 else min(RUN, self.levels[-1])

    @property
    def starts(self) -> list[Ints]:
        """First slot of every sample of each psi, ascending: L arrays (t,)."""
        blocks = np.arange(0, self.n_slots, self.levels[-1])[:, None]
        steps = [max(psi, self.run) for psi in self.levels]
        starts: list[Ints] = [(blocks + np.arange(0, self.levels[-1] - step + 1, step)).ravel() for step in steps]
        return starts

    @property
    def counts(self) -> Ints:
        """Number of samples of each psi, t: (L,)."""
        n_blocks = self.n_slots // self.levels[-1]
        return np.array([n_blocks * (self.levels[-1] // max(psi, self.run)) for psi in self.levels])

    @property
    def n_cells(self) -> int:
        """Number of cells of all psi, those of slots that are in no sample included."""
        return len(self.levels) * self.n_slots

    @property
    def far_weights(self) -> Ints:
        """What a sample of each psi counts where all psi are to count alike, as whole numbers: (L,)."""
        weights: Ints = self.counts[0] // self.counts
        return weights

    @property
    def ends(self) -> Ints:
        """Where the samples of each psi begin among those of all, and their number last: (L + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def block(self) -> "Cut":
        """One block alone."""
        return Cut(self.levels, self.levels[-1])
