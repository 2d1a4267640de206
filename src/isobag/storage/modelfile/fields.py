"""Kinds of fields: how a value is written to a model file, and how it is checked when it is read back.

A kind writes a value as JSON and as tensors named by its path, and reads it back. Type, dtype, number of axes and range
are checked both ways, since a file may come from anyone.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from isobag.backends.arrays import MOST_ROWS
from isobag.storage.modelfile.container import ModelFileError, Tensors


class Kind(Protocol):
    """A way to write a value and to read it back."""

    def encode(self, value: Any, path: str, tensors: Tensors) -> Any:
        """The value as JSON; its arrays go to ``tensors``."""

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """The value, checked; its tensors are taken out of ``tensors``."""


def demand(holds: Any, path: str, sentence: str) -> None:
    """Refuse the file unless a condition holds."""
    if not holds:
        raise ModelFileError(f"{path}: {sentence}")


class Plain(NamedTuple):
    """A value that is JSON itself: None, true or false, a number, a string, or a list of these.

    holds, need : what is demanded of the JSON, and how to say so.
    dump, build : to JSON, and back.
    """

    holds: Callable[[Any], Any]
    need: str
    dump: Callable[[Any], Any] = lambda value: value.item() if isinstance(value, np.generic) else value
    build: Callable[[Any], Any] = lambda node: node

    def encode(self, value: Any, path: str, tensors: Tensors) -> Any:
        """The value as JSON, checked."""
        node = self.dump(value)
        demand(self.holds(node), path, f"{node!r:.60}; need {self.need}.")
        return node

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """The value, if the JSON is as it must be."""
        demand(self.holds(node), path, f"{node!r:.60}; need {self.need}.")
        return self.build(node)


def integer(low: int = 0, high: int = MOST_ROWS) -> Plain:
    """An integer between two bounds."""
    return Plain(lambda node: type(node) is int and low <= node <= high, f"an integer from {low} to {high}")


def number(low: float, high: float) -> Plain:
    """A finite number between two bounds."""
    return Plain(lambda node: type(node) is float and low <= node <= high, f"a number from {low} to {high}")


def choice(allowed: Collection[Any]) -> Plain:
    """One of some values: strings, None, True and False."""
    need = f"one of {', '.join(map(repr, allowed))}"
    return Plain(lambda node: any(type(node) is type(one) and node == one for one in allowed), need)


def _is_rising(node: Any) -> bool:
    is_list = isinstance(node, list) and all(type(psi) is int and 2 <= psi <= MOST_ROWS for psi in node)
    return is_list and len(node) > 0 and all(a < b for a, b in pairwise(node))


STRING = Plain(lambda node: isinstance(node, str), "a string")
NAMES = Plain(
    lambda node: isinstance(node, list) and all(isinstance(name, str) for name in node),
    "a list of strings",
    lambda value: [str(name) for name in value],
    lambda node: np.array(node, dtype=object),
)
LEVELS = Plain(_is_rising, "integers of 2 or more in rising order", lambda value: [int(psi) for psi in value], tuple)
"""Nested psi."""


class OrNone(NamedTuple):
    """A value of a kind, or None."""

    kind: Kind

    def encode(self, value: Any, path: str, tensors: Tensors) -> Any:
        """None stands for itself."""
        return None if value is None else self.kind.encode(value, path, tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """None stands for itself."""
        return None if node is None else self.kind.decode(node, path, tensors)


class Array(NamedTuple):
    """An array of a given dtype and number of axes, all of whose entries lie between two bounds: no NaN."""

    dtypes: tuple[str, ...]
    n_axes: int
    low: float = -np.inf
    high: float = np.inf

    def encode(self, value: Any, path: str, tensors: Tensors) -> None:
        """Nothing but a tensor of that name."""
        tensors[path] = np.ascontiguousarray(self._checked(value, path))

    def decode(self, node: Any, path: str, tensors: Tensors) -> npt.NDArray[Any]:
        """The tensor of that name."""
        demand(path in tensors, path, "missing.")
        return self._checked(tensors.pop(path), path)

    def _checked(self, value: npt.NDArray[Any], path: str) -> npt.NDArray[Any]:
        fits = value.dtype.name in self.dtypes and value.ndim == self.n_axes
        need = f"need {' or '.join(self.dtypes)} with {self.n_axes} axes."
        demand(fits, path, f"{value.dtype.name} of shape {value.shape}; {need}")
        within = value.size == 0 or (value.min() >= self.low and value.max() <= self.high)  # false for NaN
        demand(within, path, f"values out of bounds; need {self.low} to {self.high}.")
        return value


class Several(NamedTuple):
    """A sequence of values of one kind."""

    item: Kind
    container: Callable[[list[Any]], Any] = list

    def encode(self, value: Any, path: str, tensors: Tensors) -> list[Any]:
        """A list of what the values become."""
        return [self.item.encode(one, f"{path}.{k}", tensors) for k, one in enumerate(getattr(value, "members", value))]

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """The values."""
        demand(isinstance(node, list) and node, path, "need a nonempty list.")
        return self.container([self.item.decode(one, f"{path}.{k}", tensors) for k, one in enumerate(node)])


class Record(NamedTuple):
    """A tuple or data class with fields of its own; whether these agree is checked on the whole estimator.

    later : fields that files of older versions lack; ``build`` has defaults for them.
    """

    build: Callable[..., Any]
    fields: Mapping[str, Kind]
    later: frozenset[str] = frozenset()

    def encode(self, value: Any, path: str, tensors: Tensors) -> dict[str, Any]:
        """An object with one entry for each field."""
        return {
            name: kind.encode(getattr(value, name), f"{path}.{name}", tensors) for name, kind in self.fields.items()
        }

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """The value."""
        known = isinstance(node, dict) and set(self.fields) - self.later <= set(node) <= set(self.fields)
        demand(known, path, f"need {', '.join(self.fields)}.")
        return self.build(**{name: self.fields[name].decode(node[name], f"{path}.{name}", tensors) for name in node})


class Counts:
    """A sparse matrix of counts: CSR (rows, columns) of integers of 0 or more."""

    _parts = {  # noqa: RUF012, never changed
        "data": Array(("int32", "int64"), 1, 0, 1 << 31),
        "indices": Array(("int32", "int64"), 1, 0),
        "indptr": Array(("int32", "int64"), 1, 0),
    }

    def encode(self, value: Any, path: str, tensors: Tensors) -> list[int]:
        """The shape; the three arrays are tensors."""
        value = value.tocsr()  # counts may live on a device
        for name, kind in self._parts.items():
            kind.encode(getattr(value, name), f"{path}.{name}", tensors)
        return [int(n) for n in value.shape]

    def decode(self, node: Any, path: str, tensors: Tensors) -> csr_array:
        """The matrix, if its arrays make one."""
        demand(isinstance(node, list) and len(node) == 2, path, "need a shape.")
        n_rows, n_columns = (integer(1).decode(n, path, tensors) for n in node)
        data, indices, indptr = (kind.decode(None, f"{path}.{name}", tensors) for name, kind in self._parts.items())
        demand(len(indptr) == n_rows + 1 and indptr[0] == 0 and indptr[-1] == len(indices), path, "inconsistent rows.")
        demand(len(data) == len(indices) and np.all(np.diff(indptr) >= 0), path, "inconsistent rows.")
        demand(indices.max(initial=0) < n_columns, path, f"a column index above {n_columns - 1}.")
        return csr_array((data, indices, indptr), shape=(n_rows, n_columns))
