"""Parameters: one description each, from which checks, model files and the options of the command derive."""

import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from isobag.backends import BACKENDS
from isobag.backends.arrays import MOST_ROWS

LENGTH = re.compile(r"([1-9]\d{0,5})([smhdw])")
"""A length of time: a whole number and its unit."""
_MOST_JOBS = 1 << 12
_ABOVE_0, _BELOW_1 = float(np.nextafter(0, 1)), float(np.nextafter(1, 0))


@dataclass(frozen=True)
class Parameter:
    """Which values a parameter takes; what it is for stands in the docstring of its class.

    need : how to say what it takes, after NAME=VALUE and a semicolon.
    choices : strings, None, True and False that it takes.
    accepts : whether it takes a value that is none of the choices.
    """

    need: str
    choices: tuple[Any, ...] = ()
    accepts: Callable[[Any], bool] = lambda value: False

    def holds(self, value: Any) -> bool:
        """Whether the parameter may have the value."""
        is_choice = any(value is one or (isinstance(value, str) and value == one) for one in self.choices)
        return is_choice or self.accepts(value)


Parameters = Mapping[str, Parameter]


def check_params(params: Mapping[str, Any], described: Parameters) -> None:
    """Refuse the first parameter with a value that it must not have."""
    for name, parameter in described.items():
        if not parameter.holds(params[name]):
            raise ValueError(f"{name}={params[name]!r}; {parameter.need}.")


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, and not true or false."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _integer(low: int, high: int = MOST_ROWS) -> Callable[[Any], bool]:
    return lambda value: is_integer(value) and low <= value <= high


def _real(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Real) and not isinstance(value, bool) and low <= float(value) <= high


def one_of(allowed: Collection[Any], accepts: Callable[[Any], bool] = lambda value: False) -> Parameter:
    """One of some values: strings, None, True and False."""
    return Parameter(f"choose one of {', '.join(map(repr, allowed))}", tuple(allowed), accepts)


def at_least(least: int, reason: str) -> Parameter:
    """An integer with a lower bound."""
    return Parameter(f"need an integer of {least} or more: {reason}", (), _integer(least))


N_ESTIMATORS = at_least(1, "scores are means over partitionings")
MAX_SAMPLES = Parameter(
    "need 'auto' or an integer of 2 or more: a lone center has no neighbour", ("auto",), _integer(2)
)
POOL_SIZE, MAX_ROWS = (
    Parameter(f"need None, 'auto' or an integer of 2 or more, {what}", (None, "auto"), _integer(2))
    for what in ("the rows that samples are cut from", "the most rows to learn from")
)
CONTAMINATION = Parameter("need 'auto' or a share above 0 and at most 0.5", ("auto",), _real(_ABOVE_0, 0.5))
RANDOM_STATE = Parameter(
    "need None, an integer from 0 to 4294967295 or a RandomState",
    (None,),
    lambda value: _integer(0, 2**32 - 1)(value) or isinstance(value, np.random.RandomState) or value is np.random,
)
BACKEND = one_of(("auto", *BACKENDS))
N_JOBS = Parameter(
    f"need None or an integer other than 0, from -{_MOST_JOBS} to {_MOST_JOBS}, as in joblib",
    (None,),
    lambda value: _integer(-_MOST_JOBS, _MOST_JOBS)(value) and value != 0,
)
DEVICE = Parameter(
    "choose one of None, 'auto', 'cpu', 'cuda', 'cuda:0', 'cuda:1', ...",
    (None, "auto", "cpu", "cuda"),
    lambda value: isinstance(value, str) and re.fullmatch("cuda:[0-9]+", value) is not None,
)
N_PERMUTATIONS = at_least(19, "no p-value could be below .05")
FDR = Parameter("need a share between 0 and 1", (), _real(_ABOVE_0, _BELOW_1))
EVERY = Parameter(
    "need a whole number and s, m, h, d or w, such as '15m', '1h', '1d' or '1w'",
    (),
    lambda value: isinstance(value, str) and LENGTH.fullmatch(value) is not None,
)
TIME_ZONE = Parameter(
    "need the name of a time zone, such as 'Europe/Berlin'",
    (None,),
    lambda value: isinstance(value, str),
)
MIN_SIZE = at_least(1, "a group has at least one row")


def check_max_samples(value: Any, n_rows: int, name: str = "max_samples", rows: str = "row") -> None:
    """Refuse more centers than there are rows, or groups, to draw them from."""
    if n_rows < 2:
        raise ValueError(f"X has {n_rows} {rows}{'' if n_rows == 1 else 's'}; need at least 2.")
    if value != "auto" and value > n_rows:
        raise ValueError(
            f"{name}={int(value)}; need {n_rows} or fewer, the number of {rows}s: "
            "centers are drawn without replacement."
        )


def warn_of_many_samples(value: Any, n_aside: int) -> None:
    """Warn where so many rows are centers that most have a cell of their own, and p-values tell little."""
    if value != "auto" and value > n_aside / 2 > 1:
        warnings.warn(
            f"max_samples={value} is more than half of the {n_aside} rows that p-values rest on: most have a cell of"
            " their own, new rows score alike, and p-values find little; fit with fewer.",
            stacklevel=4,
        )
