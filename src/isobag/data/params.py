"""What parameters may be: a table of constraints for each estimator, and one sentence where one is broken."""

import warnings
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from isobag.backends import BACKENDS


class Constraint(NamedTuple):
    """What a value must satisfy, and how to say so, after NAME=VALUE and a semicolon."""

    holds: Callable[[Any], bool]
    sentence: str


Constraints = Mapping[str, Constraint]


def check_params(params: Mapping[str, Any], constraints: Constraints) -> None:
    """Refuse the first parameter that breaks its constraint."""
    for name, constraint in constraints.items():
        if not constraint.holds(params[name]):
            raise ValueError(f"{name}={params[name]!r}; {constraint.sentence}.")


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, and not true or false."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_share(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_numbered_gpu(value: str) -> bool:
    kind, _, number = value.partition(":")
    return kind == "cuda" and number.isdecimal() and number.isascii()


def one_of(allowed: Collection[Any]) -> Constraint:
    """One of some values: strings and None."""
    return Constraint(
        lambda value: any(value is one or (isinstance(value, str) and value == one) for one in allowed),
        f"choose one of {', '.join(map(repr, allowed))}",
    )


def at_least(least: int, reason: str) -> Constraint:
    """An integer with a lower bound."""
    return Constraint(
        lambda value: is_integer(value) and value >= least, f"need an integer of {least} or more: {reason}"
    )


FLAG = Constraint(lambda value: isinstance(value, bool | np.bool_), "choose one of True, False")


def flag_or(word: str) -> Constraint:
    """True, False or one word."""
    return Constraint(
        lambda value: FLAG.holds(value) or (isinstance(value, str) and value == word),
        f"choose one of True, False, {word!r}",
    )


N_ESTIMATORS = at_least(1, "scores are means over partitionings")
N_PERMUTATIONS = at_least(19, "no p-value could be below .05")
MAX_SAMPLES = Constraint(
    lambda value: _is_auto(value) or (is_integer(value) and value >= 2),
    "need 'auto' or an integer of 2 or more: a lone center has no neighbour",
)
N_JOBS = Constraint(
    lambda value: value is None or (is_integer(value) and value != 0),
    "need None or an integer other than 0, as in joblib",
)
BACKEND = one_of(("auto", *BACKENDS))
DEVICE = Constraint(
    lambda value: (
        value is None or (isinstance(value, str) and (value in ("auto", "cpu", "cuda") or _is_numbered_gpu(value)))
    ),
    "choose one of None, 'auto', 'cpu', 'cuda', 'cuda:0', 'cuda:1', ...",
)
CONTAMINATION = Constraint(
    lambda value: _is_auto(value) or (_is_share(value) and 0 < float(value) <= 0.5),
    "need 'auto' or a share above 0 and at most 0.5",
)
FDR = Constraint(
    lambda value: _is_share(value) and 0 < float(value) < 1,
    "need a share between 0 and 1: of the alarms, those that may be false",
)


def check_max_samples(value: Any, n_rows: int, name: str = "max_samples", rows: str = "number of rows") -> None:
    """Refuse more centers than there are rows to draw them from."""
    if n_rows < 2:
        raise ValueError(f"{n_rows} is the {rows}; need 2 or more: what is odd shows only among others.")
    if not _is_auto(value) and value > n_rows:
        raise ValueError(f"{name}={value}; need {n_rows} or fewer, the {rows}: centers are drawn without replacement.")


def warn_of_many_samples(value: Any, n_aside: int) -> None:
    """Warn where so many rows are centers that most have a cell of their own, and p-values tell little."""
    if not _is_auto(value) and value > n_aside / 2 > 1:
        warnings.warn(
            f"max_samples={value} is more than half of the {n_aside} rows that p-values rest on: most have a cell of"
            " their own, new rows score alike, and p-values find little; fit with fewer.",
            stacklevel=4,
        )
