"""Array types shared by all rooms, and the one reserved cell index."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

OUTSIDE = -1
"""Cell index of a point that no ball of a partitioning covers."""
