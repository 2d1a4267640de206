"""Kinds of fields: how a value is written to a model file, and how it is checked when it is read back.

A kind writes a value as JSON and as tensors named by its path, and reads it back. Type, dtype, number of axes and range
are checked both ways, since a file may come from anyone.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from numbers import Integral, Real
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


class Whole(NamedTuple):
    """An integer between two bounds."""

    low: int = 0
    high: int = MOST_ROWS

    def encode(self, value: Any, path: str, tensors: Tensors) -> int:
        """The integer, if it is one."""
        demand(isinstance(value, Integral) and not isinstance(value, bool), path, f"{value!r:.60}; need an integer.")
        return self.decode(int(value), path, tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> int:
        """The integer, if it is one within the bounds."""
        within = type(node) is int and self.low <= node <= self.high
        demand(within, path, f"{node!r:.60}; need an integer from {self.low} to {self.high}.")
        return int(node)


class Finite(NamedTuple):
    """A finite number between two bounds."""

    low: float
    high: float

    def encode(self, value: Any, path: str, tensors: Tensors) -> float:
        """The number, if it is one."""
        demand(isinstance(value, Real) and not isinstance(value, bool), path, f"{value!r:.60}; need a number.")
        return self.decode(float(value), path, tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> float:
        """The number, if it is one within the bounds."""
        within = type(node) is float and self.low <= node <= self.high
        demand(within, path, f"{node!r:.60}; need a number from {self.low} to {self.high}.")
        return float(node)


class OneOf(NamedTuple):
    """One of some values: strings, None, True and False."""

    allowed: Collection[Any]

    def encode(self, value: Any, path: str, tensors: Tensors) -> Any:
        """The value, if it is one of them."""
        return self.decode(bool(value) if isinstance(value, np.bool_) else value, path, tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """The value, if it is one of them."""
        known = any(type(node) is type(one) and node == one for one in self.allowed)
        demand(known, path, f"{node!r:.60}; need one of {', '.join(map(repr, self.allowed))}.")
        return node


class Either(NamedTuple):
    """One of some simple values, or else a value of another kind."""

    simple: OneOf
    other: Kind

    def encode(self, value: Any, path: str, tensors: Tensors) -> Any:
        """As the simple value if it is one."""
        return self._kind(value).encode(value, path, tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """As the simple value if it is one."""
        return self._kind(node).decode(node, path, tensors)

    def _kind(self, value: Any) -> Kind:
        return self.simple if any(type(value) is type(one) for one in self.simple.allowed) else self.other


def or_none(kind: Kind) -> Either:
    """The kind, or None."""
    return Either(OneOf((None,)), kind)


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
        found = (value.dtype.name, value.ndim)
        fits = value.dtype.name in self.dtypes and value.ndim == self.n_axes
        demand(fits, path, f"{found[0]} with {found[1]} axes; need {' or '.join(self.dtypes)} with {self.n_axes}.")
        within = value.size == 0 or (value.min() >= self.low and value.max() <= self.high)  # false for NaN
        demand(within, path, f"values out of bounds; need {self.low} to {self.high}.")
        return value


class Levels:
    """Nested psi: integers of 2 or more, in rising order."""

    def encode(self, value: Any, path: str, tensors: Tensors) -> list[int]:
        """A list of integers."""
        return [int(psi) for psi in value]

    def decode(self, node: Any, path: str, tensors: Tensors) -> tuple[int, ...]:
        """A tuple of integers."""
        demand(isinstance(node, list) and node, path, "need a list of integers.")
        levels = tuple(Whole(2).decode(psi, path, tensors) for psi in node)
        demand(all(a < b for a, b in pairwise(levels)), path, "need integers in rising order.")
        return levels


class Names:
    """Names of features, an array of strings."""

    def encode(self, value: Any, path: str, tensors: Tensors) -> list[str]:
        """A list of strings."""
        return [str(name) for name in value]

    def decode(self, node: Any, path: str, tensors: Tensors) -> npt.NDArray[np.object_]:
        """An array of strings."""
        demand(isinstance(node, list) and all(isinstance(name, str) for name in node), path, "need a list of strings.")
        return np.array(node, dtype=object)


class Text:
    """A text."""

    def encode(self, value: Any, path: str, tensors: Tensors) -> str:
        """The text, if it is one."""
        return self.decode(value, path, tensors)

    def decode(self, node: Any, path: str, tensors: Tensors) -> str:
        """The text, if it is one."""
        demand(isinstance(node, str), path, "need a string.")
        return str(node)


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
    """A tuple or data class with fields of its own, which must agree with each other.

    later : fields that files of older versions lack; ``build`` has defaults for them.
    """

    build: Callable[..., Any]
    fields: Mapping[str, Kind]
    check: Callable[[Any, str], None]
    later: frozenset[str] = frozenset()

    def encode(self, value: Any, path: str, tensors: Tensors) -> dict[str, Any]:
        """An object with one entry for each field."""
        return {
            name: kind.encode(getattr(value, name), f"{path}.{name}", tensors) for name, kind in self.fields.items()
        }

    def decode(self, node: Any, path: str, tensors: Tensors) -> Any:
        """The value, if its fields agree."""
        known = isinstance(node, dict) and set(self.fields) - self.later <= set(node) <= set(self.fields)
        demand(known, path, f"need {', '.join(self.fields)}.")
        value = self.build(**{name: self.fields[name].decode(node[name], f"{path}.{name}", tensors) for name in node})
        self.check(value, path)
        return value


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
        n_rows, n_columns = (Whole(1).decode(n, path, tensors) for n in node)
        data, indices, indptr = (kind.decode(None, f"{path}.{name}", tensors) for name, kind in self._parts.items())
        demand(len(indptr) == n_rows + 1 and indptr[0] == 0 and indptr[-1] == len(indices), path, "inconsistent rows.")
        demand(len(data) == len(indices) and np.all(np.diff(indptr) >= 0), path, "inconsistent rows.")
        demand(indices.max(initial=0) < n_columns, path, f"a column index above {n_columns - 1}.")
        return csr_array((data, indices, indptr), shape=(n_rows, n_columns))
