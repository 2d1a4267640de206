"""How a table is to be read: the options of the command and of ``detect``, once."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from isobag.data.params import check_params, one_of
from isobag.tables.cells import check_dates
from isobag.tables.encode import CHOICES, Encoding
from isobag.tables.notation import Notation
from isobag.tables.summary import GROUP, ID, TIMES
from isobag.tables.times import Bags


@dataclass(frozen=True)
class ReadOptions:
    """How a table is to be read.

    features : names of the columns to use; None for those of TAKEN that are no identifiers.
    by, id : columns that make the label of a row's group, or name rows; they are no features.
    missing : missing values are an "error", their rows are "drop"ped, or the "median" stands for them; "auto": the
        same, where there are any, and where they are many one more feature says where they are.
    bad_cells : cells that are not numbers, among numbers, are an "error", "missing", or make the column one of "text".
    decimal, thousands, numbers, dates : how text writes numbers and dates; see ``Notation``.
    exclude : names of columns to leave out, or patterns of them (temp_*).
    carry : columns to keep beside the labels as they are, features or not; None for all.
    bags : how the rows of a label are divided by time.
    baseline : columns that make the label of the group that a row is compared with; they are no features.
    """

    features: tuple[str, ...] | None = None
    by: tuple[str, ...] = ()
    id: str | None = None
    missing: str = "auto"
    bad_cells: str = "error"
    decimal: str = "."
    thousands: str = ""
    numbers: str = "strict"
    carry: tuple[str, ...] | None = ()
    exclude: tuple[str, ...] = ()
    bags: Bags | None = None
    baseline: tuple[str, ...] = ()
    dates: str = ""

    def __post_init__(self) -> None:
        check_params(vars(self), {name: one_of(allowed) for name, allowed in CHOICES.items()})
        check_dates(self.dates)
        if self.by and self.baseline:
            raise ValueError("within= compares rows, not groups; leave out by=.")
        if self.thousands == self.decimal:
            raise ValueError(f"thousands={self.thousands!r} is the decimal sign too; choose another with decimal=.")

    @property
    def notation(self) -> Notation:
        """How text writes numbers and dates."""
        return Notation(self.decimal, self.thousands, self.numbers, self.dates)

    @classmethod
    def of(cls, **names: Any) -> "ReadOptions":
        """The same, with one name or any number of them for each; names need not be texts."""
        for name in ("features", "by", "carry", "exclude", "baseline"):
            if names.get(name) is not None:
                names[name] = names_of(names[name])
            elif name in ("by", "exclude", "baseline"):
                names[name] = ()
        return cls(**{**names, "id": None if names.get("id") is None else str(names["id"])})

    def excludes(self, name: str) -> bool:
        """Whether a column is to be left out."""
        return any(name == own or fnmatchcase(name, own) for own in self.exclude)

    def may_use(self, name: str) -> bool:
        """Whether a column may become features: it is asked for, or none is."""
        is_asked = self.features is None or name in self.features
        return is_asked and name not in self.apart and not self.excludes(name)

    @property
    def apart(self) -> dict[str, str]:
        """Columns that are no features, with their role: labels of groups, an id, times."""
        named = {} if self.id is None else {self.id: ID}
        times = {} if self.bags is None else {self.bags.time: TIMES}
        return dict.fromkeys(self.by + self.baseline, GROUP) | named | times

    @property
    def labels(self) -> tuple[str, ...]:
        """What makes the label of a group: columns, and the start of its period or session."""
        return self.by if self.bags is None else (*self.by, self.bags.name)

    def following(self, encoding: Encoding) -> "ReadOptions":
        """The same for the columns of a model, with its ways for missing and bad cells unless others are given."""
        how = {name: getattr(encoding, name) for name in CHOICES}
        chosen = {name: vars(self)[name] for name in ("missing", "bad_cells")}
        changed = {name: value for name, value in chosen.items() if value != getattr(ReadOptions, name)}
        baseline = self.baseline or encoding.baseline
        used = tuple(column.name for column in encoding.columns)
        if self.id in used:
            raise ValueError(f"id_column={self.id!r}; the model has it as a feature: fit it with exclude={self.id!r}.")
        return replace(self, features=used, exclude=(), baseline=baseline, dates=encoding.dates, **(how | changed))


def names_of(names: Any) -> tuple[str, ...]:
    """Names of columns as texts: none, one, or several."""
    if names is None:
        return ()
    if isinstance(names, str) or not isinstance(names, Iterable):
        return (str(names),)
    return tuple(str(name) for name in names)


def listed(names: Any) -> list[Any]:
    """One name, or several, as they are."""
    return list(names) if isinstance(names, list | tuple) else [names]
