"""Entities over time: each period is judged by what was known before it, and then becomes part of what is known.

1. scores     past, first, peers, volume: see ``entities`` and ``volume``
2. p-values   by rank among the scores of earlier periods, see ``ranks``; past and first among those of bags with a
              past half as long to twice as long; until the longest season is known, the larger of that and the rank
              among the lines of the same period, as the first weekend is new to everyone; dismissed lines count for
              their own entity alone: a line that is no odder than one of them is as rare as these among its lines,
              and counts as dismissed if it would be flagged otherwise
3. one        weighted Bonferroni, see WEIGHTS: valid whatever depends on whatever
4. common     where more than half of the lines, and five or more, have p <= .05, everyone changed: lines are then
              flagged by their ranks among those of the same period, and no later score is measured by these; from the
              sixth such period in a row on they count as all others, as what lasts becomes usual
5. flagged    Benjamini and Hochberg over the lines of the period, at level fdr max(1, R) / 30, at most fdr; R is the
              number of lines flagged in the 29 periods before, of which a run of periods of one entity counts once: a
              fault that lasts would otherwise earn false alarms beside it day after day; lines of entities that were
              flagged in the period before are a family of their own, at level fdr

What 5 promises: the shares of false ones among the newly flagged lines of all periods add up to at most
fdr (R + T / 30) on average, for R runs flagged in T periods: few alarms are false, and where nothing happens there is a
false one in at most fdr of all months of days. Of the lines by which runs go on, a share of fdr is false in a period.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from isobag.backends import Compute
from isobag.backends.arrays import Array, Bools, Floats, Ints
from isobag.backends.learned import Learned, check, demand
from isobag.backends.pairs import MOST_COLUMNS, PackedCounts
from isobag.models.bags import CONFIRMED, DISMISSED, FLAGGED, MISSING, ORDINARY, PeriodLines
from isobag.models.calibration import discoveries
from isobag.models.contents import Content
from isobag.models.entities import (
    N_EARLY,
    N_FIRST,
    RawScores,
    compare_with_past,
    compare_with_peers,
    gather_peers,
    standardise,
)
from isobag.models.ranks import combine_p_values, rank_p_values, rank_within, recent_scores
from isobag.models.shifts import MOST_COLUMNS as MOST_SHIFTED
from isobag.models.shifts import WEEK, latest_means, usual_means
from isobag.models.views import Views
from isobag.models.volume import Cycles, choose_periods, forecast, nearby_periods, run_scores, same_phase

WEIGHTS = {"past": 0.6, "first": 0.05, "peers": 0.1, "volume": 0.25}
"""Shares of the false alarms that each score may raise."""
ONLINE_PERIODS = 30
LEAST_EXPECTED = 0.5
"""Silent entities of which fewer rows are expected have no line."""
MOST_SAMPLED = 2_000
"""Bags of a period that nobody judges, whose peers are looked at, to compare later ones with."""
ENOUGH_ALIKE = 1_000
"""From so many lines on, only those of the later half of all periods, and with the same season, are compared with."""
LEAST_CHANGED, CHANGED_P = 5, 0.05
MOST_CHANGED = 5
"""Periods after which a common change that lasts becomes what is usual."""


@dataclass(frozen=True, eq=False)
class Timeline(Learned):
    """Views of the rows, and all periods.

    between, peers_between : q (see ``entities``) between bags of an entity, and of different ones.
    periods : in the order of time.
    firsts : of periods that were left behind, the lines that are among the first of their entity.
    cohorts : (e,), the cohort of each entity.
    """

    views: Views
    between: float
    peers_between: float
    cohorts: Ints
    periods: tuple[PeriodLines, ...]
    firsts: tuple[PeriodLines, ...] | None

    def validate(self) -> None:
        """Periods in the order of time, of the entities, cells and features that there are."""
        check("between", (self.between, self.peers_between), (2,), 0, 1 << 20)
        check("cohorts", self.cohorts, (None,), 0)
        demand(self.n_columns <= MOST_COLUMNS, f"views have more than {MOST_COLUMNS} cells")
        demand(np.all(np.diff([one.number for one in self.periods]) > 0), "periods are not in the order of time")
        for one in self.all_periods:
            check("entities", one.entities, (None,), 0, len(self.cohorts) - 1)
            check("columns", one.bags.columns, (None,), 0, self.n_columns - 1)
            check("means", one.means, (None, self.views.n_features), -np.inf, np.inf)

    @property
    def n_columns(self) -> int:
        """Number of cells of all partitionings."""
        return self.views.n_columns

    @property
    def all_periods(self) -> tuple[PeriodLines, ...]:
        """All that is left of periods, in the order of time."""
        return (*(self.firsts or ()), *self.periods)

    def before(self, number: int) -> "Timeline":
        """The same as before a period."""
        return replace(self, periods=tuple(one for one in self.periods if one.number < number))

    def after(self, period: PeriodLines, n_recent: int, keep: int | None) -> "Timeline":
        """The same with one more period. Hashes of rows are kept in the last so many, all else in ``keep`` periods."""
        periods = [*self.periods, period]
        oldest = period.number - n_recent
        periods = [one if one.number >= oldest else one.settled() for one in periods]
        if keep is None:
            return replace(self, periods=tuple(periods))
        left = [_first_lines(one) for one in periods if one.number <= period.number - keep]
        firsts = (*(self.firsts or ()), *(one for one in left if len(one)))
        return replace(
            self,
            periods=tuple(one for one in periods if one.number > period.number - keep),
            firsts=firsts or None,
        )

    def with_status(self, entity: int, number: int, status: int) -> "Timeline | None":
        """The same with another word on one line; None if there is no such line."""
        for place, period in enumerate(self.periods):
            if period.number == number:
                line = int(period.places(np.array([entity]))[0])
                if line >= 0:
                    words = period.status.copy()
                    words[line] = status
                    changed = replace(period, status=words)
                    return replace(self, periods=(*self.periods[:place], changed, *self.periods[place + 1 :]))
        return None


class Verdict(NamedTuple):
    """What is said of the lines of a period: p-values (lines,) of each score, and of all together.

    weighted : p / weight of each score, of what lines are flagged by; ranks within the period in a common change.
    excused : (lines,), those that would be flagged but for a dismissed line of their entity that is no less odd.
    levels : (lines,), up to which weighted p-value each is flagged.
    changed : number of lines that changed together; 0 where this is no common change.
    """

    p_values: dict[str, Floats]
    p_value: Floats
    weighted: dict[str, Floats]
    flagged: Bools
    excused: Bools
    levels: Floats
    changed: int


def judge_content(
    known: Timeline, content: Content, cycles: Cycles, fdr: float, is_judged: bool, compute: Compute
) -> tuple[PeriodLines, Verdict | None]:
    """The lines of a period, scored and, if wanted and enough is known, judged."""
    lines = _score(known, content, cycles, is_judged, compute)
    is_seasonal = lines.cycle == max(cycles.lengths, default=0)
    verdict = _judge(known.periods, lines, fdr, is_seasonal) if is_judged else None
    if verdict is not None:
        status = np.where(verdict.flagged, FLAGGED, np.where(verdict.excused, DISMISSED, ORDINARY)).astype(np.int8)
        is_lasting = len(known.periods) >= MOST_CHANGED and all(one.changed for one in known.periods[-MOST_CHANGED:])
        changed = verdict.changed if is_seasonal and not is_lasting else 0
        lines = replace(lines, status=status, changed=changed)
    return lines, verdict


def keep_words(before: PeriodLines, after: PeriodLines) -> PeriodLines:
    """A period that was judged again, with what was said of its lines by a person."""
    places = before.places(after.entities)
    words = np.where(places >= 0, before.status[places] if len(before) else ORDINARY, ORDINARY)
    is_kept = (words == CONFIRMED) | (words == DISMISSED)
    return replace(after, status=np.where(is_kept, words, after.status).astype(np.int8))


def _score(known: Timeline, content: Content, cycles: Cycles, is_judged: bool, compute: Compute) -> PeriodLines:
    bags, periods, firsts = content.bags, known.periods, known.firsts or ()
    n_entities = len(known.cohorts)
    present = cycles.part(range(len(firsts), len(firsts) + len(periods)))
    usual = forecast(periods, present, n_entities)
    is_line = usual.expected >= LEAST_EXPECTED
    is_line[bags.entities] = True
    entities = np.flatnonzero(is_line)
    at = np.searchsorted(entities, bags.entities)
    sizes = _placed(bags.sizes, at, len(entities), 0)
    near = nearby_periods(len(periods), present)
    own = compare_with_past(bags, firsts, periods, near, known.between, known.n_columns, compute)
    shift, first_shift = _shifts(known, content, cycles, present)
    first_shift[own.from_first == MISSING] = MISSING
    raw = RawScores(own.distance, shift, own.from_first, first_shift)
    cycle = choose_periods(len(periods), present).cycle
    past, first = standardise(raw, bags.entities, firsts, periods, n_entities, cycle)
    chosen = np.arange(len(bags.sizes))
    if not is_judged and len(chosen) > MOST_SAMPLED:
        chosen = chosen[np.arange(MOST_SAMPLED) * len(chosen) // MOST_SAMPLED]
    peers = np.full(len(bags.sizes), MISSING)
    around = gather_peers(bags, periods)
    peers[chosen] = compare_with_peers(
        bags, chosen, around, known.cohorts, known.peers_between, known.n_columns, compute
    )
    n_lines, n_features = len(entities), content.means.shape[1]
    lengths = _placed(np.diff(bags.packed.starts), at, n_lines, 0)
    means, spreads = np.zeros((2, n_lines, n_features), dtype=np.float32)
    means[at], spreads[at] = content.means, content.spreads
    return PeriodLines(
        content.number,
        cycle,
        0,
        entities,
        sizes,
        PackedCounts(np.append(0, np.cumsum(lengths)), bags.packed.columns, bags.packed.counts),
        _placed(bags.self_dots, at, n_lines, 0),
        _placed(own.ages, at, n_lines, 0).astype(np.int32),
        _placed(own.distance, at, n_lines, MISSING),
        _placed(shift, at, n_lines, MISSING),
        _placed(past, at, n_lines, MISSING),
        _placed(first, at, n_lines, MISSING),
        _placed(peers, at, n_lines, MISSING),
        run_scores(sizes, usual, _just_before(periods, content.number), entities),
        usual.expected[entities],
        np.zeros(n_lines, dtype=np.int8),
        _placed(content.digests, at, n_lines, 0),
        content.hashes,
        means,
        spreads,
    )


def _just_before(periods: Sequence[PeriodLines], number: int) -> PeriodLines | None:
    """The period before another one, unless everyone changed in it."""
    last = periods[-1] if periods else None
    return last if last is not None and last.number == number - 1 and not last.changed else None


def _shifts(known: Timeline, content: Content, cycles: Cycles, present: Cycles) -> tuple[Floats, Floats]:
    """How far column means are from those of the own past, and from those of the first bags: (b,) each."""
    bags, periods, n_entities = content.bags, known.periods, len(known.cohorts)
    n_columns = content.means.shape[1]
    every = known.all_periods
    if n_columns > MOST_SHIFTED or not every:
        return np.full(len(bags.sizes), MISSING), np.full(len(bags.sizes), MISSING)
    chosen = choose_periods(len(periods), present)
    past = [periods[place] for place in chosen.places.tolist()]
    usual = usual_means(past, chosen.recent, chosen.same, n_entities, n_columns)
    means = content.means.astype(np.float64)
    shifts = usual.shifts(bags.entities, bags.sizes, means, known.between)
    early = [k for k, period in enumerate(every) if period.least_age < N_FIRST]
    is_same = same_phase(cycles.part(early)) if cycles.phases else np.zeros(len(early), dtype=bool)
    all_of_them = np.ones(len(early), dtype=bool)
    first = usual_means([every[k] for k in early], all_of_them, is_same, n_entities, n_columns, N_FIRST)
    first_shifts = first.shifts(bags.entities, bags.sizes, means, known.between)
    if max(cycles.lengths, default=WEEK) != WEEK:
        return shifts, first_shifts
    week = latest_means(periods, content.number, n_entities, n_columns)
    weekly = usual_means([every[k] for k in early], all_of_them, ~all_of_them, n_entities, n_columns, N_FIRST)
    sizes, means = week.with_bags(bags.entities, bags.sizes, means)
    over_a_week = weekly.shifts(bags.entities, sizes, means, known.between * (1 / WEEK + 1 / N_FIRST))
    return shifts, np.where(week.n_bags[bags.entities] == WEEK - 1, over_a_week, first_shifts)


def _judge(periods: Sequence[PeriodLines], lines: PeriodLines, fdr: float, is_seasonal: bool) -> Verdict | None:
    """P-values and flags of the lines of a period; None where too little is known to compare any with.

    Until seasons are known, a line must be odd among those of its own period as well.
    """
    usual = [one for one in periods if not one.changed]
    p_values = {name: _p_values(usual, lines, name) for name in WEIGHTS}
    if not is_seasonal:
        p_values = {
            name: np.where(np.isnan(p), p, np.fmax(p, _ranked([lines], lines, name))) for name, p in p_values.items()
        }
    allowed = {name: _among_dismissed(periods, lines, name) for name in WEIGHTS}
    ranks, p_values = p_values, {name: np.maximum(p, allowed[name]) for name, p in p_values.items()}
    p_value, weighted = combine_p_values(p_values, WEIGHTS)
    is_known = ~np.isnan(p_value)
    if not is_known.any():
        return None
    n_known = int(is_known.sum())
    changed = int((p_value[is_known] <= CHANGED_P).sum())
    judged, parts = p_value, weighted
    if changed >= LEAST_CHANGED and 2 * changed > n_known:
        within = {
            name: np.where(np.isnan(p), np.nan, rank_within(getattr(lines, name))) for name, p in p_values.items()
        }
        ranks, within = within, {name: np.maximum(p, allowed[name]) for name, p in within.items()}
        judged, parts = combine_p_values(within, WEIGHTS)
    else:
        changed = 0
    recent = n_begun(periods[-ONLINE_PERIODS:])
    level = min(fdr, fdr * max(1, recent) / ONLINE_PERIODS)
    flagged, excused = np.zeros((2, len(lines)), dtype=bool)
    levels = np.zeros(len(lines))
    last = _just_before(periods, lines.number)
    goes_on = np.isin(lines.entities, [] if last is None else last.entities[last.flagged])
    has_words = any(one.any() for one in allowed.values())
    unexcused = combine_p_values(ranks, WEIGHTS)[0] if has_words else judged
    for family, own_level in ((is_known & ~goes_on, level), (is_known & goes_on, fdr)):
        if family.any():
            flagged[family] = discoveries(judged[family], own_level) < 0
            excused[family] = (discoveries(unexcused[family], own_level) < 0) & ~flagged[family]
            levels[family] = judged[family & flagged].max(initial=0.0)
    return Verdict(p_values, p_value, parts, flagged, excused, levels, changed)


def n_begun(periods: Sequence[PeriodLines]) -> int:
    """Lines that are flagged in periods after the first of these, of entities that were not in the period before."""
    flagged = [one.entities[one.flagged] for one in periods]
    return sum(len(np.setdiff1d(later, earlier)) for earlier, later in pairwise(flagged))


def _p_values(periods: Sequence[PeriodLines], lines: PeriodLines, name: str) -> Floats:
    """P-values by rank among the scores of ordinary lines of earlier periods: (lines,)."""
    p_values = np.full(len(lines), np.nan)
    for chosen in _references(periods, lines, name):
        p_values = np.fmax(p_values, _ranked(chosen, lines, name))
    return p_values


def _among_dismissed(periods: Sequence[PeriodLines], lines: PeriodLines, name: str) -> Floats:
    """(1 + k) / (1 + n), with k of the entity's n lines dismissed and no less odd; 0 where there is none: (lines,)."""
    n_odder, n_own = np.zeros((2, len(lines)))
    scores = getattr(lines, name)
    spoken_of = [one.entities[one.status == DISMISSED] for one in periods if DISMISSED in one.status]
    own = np.flatnonzero(np.isin(lines.entities, np.concatenate(spoken_of))) if spoken_of else np.empty(0, dtype=int)
    for period in periods if len(own) else ():
        places = period.places(lines.entities[own])
        known = (places >= 0) & period.joined[places]
        mine, places = own[known], places[known]
        n_own[mine] += 1
        n_odder[mine] += (period.status[places] == DISMISSED) & (getattr(period, name)[places] >= scores[mine])
    return np.where(n_odder > 0, (1 + n_odder) / (1 + n_own), 0.0)


def _ranked(latest: Sequence[PeriodLines], lines: PeriodLines, name: str) -> Floats:
    """P-values by rank among the scores of some periods, the latest first: (lines,)."""
    scores = getattr(lines, name)

    def rank(own: Ints, low: float, high: float) -> Floats:
        parts = ((one, (one.status == ORDINARY) & (one.ages >= low) & (one.ages <= high)) for one in latest)
        references = recent_scores((getattr(one, name)[known], one.entities[known]) for one, known in parts)
        return rank_p_values(scores[own], lines.entities[own], references, name == "volume")

    if name in ("peers", "volume"):
        return rank(np.arange(len(lines)), 0, np.inf)
    p_values = np.full(len(lines), np.nan)
    octaves = np.frexp(lines.ages)[1]
    for octave in np.unique(octaves[scores > MISSING]).tolist():
        own = np.flatnonzero(octaves == octave)
        p_values[own] = rank(own, 2.0 ** (octave - 2), 2.0**octave)
    return p_values


def _references(periods: Sequence[PeriodLines], lines: PeriodLines, name: str) -> list[list[PeriodLines]]:
    """Periods whose scores are like those of a new one, the latest first; the larger p-value of several sets counts.

    These are the later half, as what is usual is better known now than long ago; and those with the same knowledge of
    the season. Where that leaves too few lines, all. Past and first are in other units during the first cycle with that
    knowledge, which is left out; in the two cycles after it all periods count beside, and in the one after it the
    present one, too.
    """
    alike = [one for one in periods[len(periods) // 2 :] if name == "peers" or one.cycle == lines.cycle]
    if name in ("past", "first"):
        same = [one.number for one in periods if one.cycle == lines.cycle][lines.cycle :]
        alike = [one for one in alike if same and one.number >= same[0]]
        if len(same) < 2 * lines.cycle:
            sets = [alike, list(periods), [lines]]
            return [one[::-1] for one in (sets if len(same) < lines.cycle else sets[:2])]
    return [alike[::-1] if sum(map(len, alike)) >= ENOUGH_ALIKE else list(periods[::-1])]


def _first_lines(period: PeriodLines) -> PeriodLines:
    """The joined lines of a period that are among the first of their entity, with what these are needed for."""
    rows = np.flatnonzero(period.joined & (period.ages < N_EARLY) & (period.sizes > 0))
    settled = period.settled()
    parts = {
        name: getattr(settled, name)[rows]
        for name in settled.__dataclass_fields__
        if name not in ("number", "cycle", "changed", "bags", "hashes")
    }
    return replace(settled, bags=period.bags.part(rows), **parts)


def _placed(values: Array, at: Ints, n_lines: int, other: float) -> Array:
    """Values of bags among those of lines, another value elsewhere."""
    placed = np.full(n_lines, other, dtype=values.dtype)
    placed[at] = values
    return placed
