"""Rows rounded to few bits, and centers packed in tiles: see ``certified``."""

import numpy as np

from isobag.backends.numba.compiled.jit import jit

FARTHEST = 2.0**50
"""Where float32 rows are cut off, in units."""


@jit
def round_rows(X, middle, inverse_unit, steps, inverses, columns, most, words, singles, lengths):
    """Rows in numbers of few bits: words (n, columns) are written, feature k in columns[k].

    X - middle in units is cut off at ``most`` steps (d,), 0 where no centers differ; inverses of both are known. Also
    written: the same rows in float32, (n, columns + 1 or more), whose last number is the length in features where no
    centers differ, and lengths (4, n): |e|, |o|, N and |x'|, infinite beyond FARTHEST
    """
    n, d = X.shape
    is_single = most == np.inf
    for row in range(n):
        rest = beyond = total = whole = apart = largest = 0.0
        for k in range(d):
            x = (X[row, k] - middle[k]) * inverse_unit
            whole += x * x
            if steps[k] == 0.0:
                apart += x * x
                continue
            largest = max(largest, abs(x))
            singles[row, columns[k]] = x
            if is_single:
                inside = min(max(x, -FARTHEST), FARTHEST)
                value = np.float64(np.float32(inside))
                words[row, columns[k]] = inside
            else:
                inside = min(max(x, -(most + 0.5) * steps[k]), (most + 0.5) * steps[k])
                level = min(max(np.rint(inside * inverses[k]), -most), most)
                value = level * steps[k]
                words[row, columns[k]] = np.int32(level)
            rest += (inside - value) * (inside - value)
            beyond += (x - inside) * (x - inside)
            total += value * value
        last = np.sqrt(apart)
        kept = min(last, FARTHEST)
        singles[row, words.shape[1]] = kept
        lengths[0, row] = np.sqrt(rest)
        lengths[1, row] = np.sqrt(beyond + (last - kept) * (last - kept))
        lengths[2, row] = total + kept * kept
        lengths[3, row] = np.inf if largest > FARTHEST or last > kept else np.sqrt(whole)


@jit
def pack_tiles(words, tiles, groups, starts, names, packed):
    """Centers of tiles as ``measure_tiles`` wants them, without words in which all are zero; the number of entries.

    words (m + 1, words) as integers, groups (G + 1,): the words of each; the others are written: see there
    """
    size = 0
    for tile in range(len(tiles)):
        for group in range(len(groups) - 1):
            starts[tile, group] = size
            for word in range(groups[group], groups[group + 1]):
                is_used = False
                for k in range(tiles.shape[1]):
                    packed[size, k] = words[tiles[tile, k], word]
                    is_used |= packed[size, k] != 0
                if is_used:
                    names[size] = word
                    size += 1
        starts[tile, len(groups) - 1] = size
    return size
