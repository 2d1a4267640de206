"""Alarms one row at a time: a share of false ones among all alarms ever raised.

Steps and formulas: study/FORMULAS.md, "Alarms of a stream".
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from isobag.backends.arrays import MOST_ROWS, Bools, Floats
from isobag.backends.learned import Learned, check, demand

MOST_ALARMS = 200
"""Alarms that are remembered. Older ones would add little; leaving them out lowers levels, which is safe."""
_SUMMED = 1 << 20


@dataclass(frozen=True)
class Lord(Learned):
    """What LORD++ remembers: the false discovery rate, how many p-values it has seen, and when it raised alarms.

    first : whether the first alarm ever is among ``alarms``, which earns fdr - w_0 and not fdr.
    least : the level does not fall below, however long the silence; n p-values of normal rows then raise n ``least``
        alarms more, on average.
    """

    fdr: float
    n_seen: int = 0
    alarms: tuple[int, ...] = ()
    first: bool = True
    least: float = 0.0

    def validate(self) -> None:
        """Shares, and alarms in rising order among the p-values that were seen."""
        check("fdr", (self.fdr, self.least), (2,), 0, 1)
        check("n_seen", self.n_seen, (), 0, MOST_ROWS)
        check("alarms", self.alarms, (None,), 1, self.n_seen)
        demand(len(self.alarms) <= MOST_ALARMS and np.all(np.diff(self.alarms) > 0), "alarms are not in rising order")

    @property
    def level(self) -> float:
        """The p-value up to which the next row raises an alarm."""
        now = self.n_seen + 1
        start = self.fdr / 2
        earned = [self.fdr * _share(now - alarm) for alarm in self.alarms]
        if self.alarms and self.first:
            earned[0] -= start * _share(now - self.alarms[0])
        return max(start * _share(now) + sum(earned), self.least)

    def after(self, p_value: float) -> tuple["Lord", bool]:
        """What is remembered after one more p-value, and whether it raises an alarm."""
        is_alarm = p_value <= self.level
        now = self.n_seen + 1
        if not is_alarm:
            return replace(self, n_seen=now), False
        alarms = (*self.alarms, now)
        is_full = len(alarms) > MOST_ALARMS
        return replace(self, n_seen=now, alarms=alarms[-MOST_ALARMS:], first=self.first and not is_full), True

    def alarms_of(self, p_values: Floats | Iterable[float]) -> tuple["Lord", Bools]:
        """The same for several p-values in their order: (n,) -> (n,)."""
        state, alarms = self, []
        for p_value in p_values:
            state, is_alarm = state.after(float(p_value))
            alarms.append(is_alarm)
        return state, np.array(alarms, dtype=bool)


def _share(t: int) -> float:
    """g_t = c log(max(t, 2)) / (t exp(sqrt(log t))), for t = 1, 2, ...; the sum over all t is below 1."""
    return float(_unscaled(np.array([float(t)]))[0]) / _total()


def _unscaled(t: Floats) -> Floats:
    shares: Floats = np.log(np.maximum(t, 2)) / (t * np.exp(np.sqrt(np.log(t))))
    return shares


@cache
def _total() -> float:
    """The sum of all unscaled shares, from above: one by one, then the integral, substituted by r = sqrt(log t)."""
    r = np.sqrt(np.log(_SUMMED))
    # The integral of log t / (t exp(sqrt(log t))) from T on is that of 2 r^3 exp(-r) from sqrt(log T) on.
    rest = 2 * np.exp(-r) * (r**3 + 3 * r**2 + 6 * r + 6)
    return float(_unscaled(np.arange(1.0, _SUMMED + 1)).sum() + rest)
