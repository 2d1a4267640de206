"""What was asked of the defaults, and what was measured."""

from study.clumps import mean_auc
from study.data import TABLES, adbench_sets, table_sets
from study.groups import figures
from study.harness import mean, table
from study.normal_groups import days_found, null_figures
from study.points import OURS, differences, measured_on
from study.rivals import PYOD


def bars(complete):
    """A table of bars and measurements, from the results of the sections that are complete: {section: results}."""
    return table([row for name, rows in BARS.items() if name in complete for row in rows(complete[name])])


def _tables(results):
    by_part = {part: measured_on(results, part, table_sets()) for part in TABLES}
    for part, bar in (("clean", 0.79), ("5 %", 0.745), ("10 %", 0.725)):
        aucs = by_part[part]
        yield _at_least(f"tables, {part}: mean AUC", bar, _mean(aucs, OURS))
        best = max(PYOD, key=lambda label, aucs=aucs: _mean(aucs, label))
        yield _at_least(f"tables, {part}: best of PyOD's defaults ({best})", _mean(aucs, best), _mean(aucs, OURS))
    for part, aucs in by_part.items():
        yield _at_most(f"tables, {part}: worst loss to IsolationForest", 0.08, _worst(aucs))


def _adbench(results):
    aucs = measured_on(results, "points", adbench_sets())
    yield _at_least(f"ADBench, {len(aucs)} sets: mean AUC", 0.79, _mean(aucs, OURS))
    yield _at_most("ADBench: worst loss to IsolationForest", 0.08, _worst(aucs))


def _clumps(results):
    for share, bar in ((0.05, 0.95), (0.1, 0.9)):
        yield _at_least(f"clumps of {share:.0%} of the rows: mean AUC", bar, mean_auc(results, share))


def _groups(results):
    auc = figures(results)
    yield _at_least("groups, thinned: mean AUC", 0.9, auc["thinned"])
    yield _at_least("groups as they are, without SDSS_0 and SDSS_50", 0.955, auc["as is, easy"])
    yield _at_least("groups as they are, all", 0.9, auc["as is"])
    yield _at_least("two seeds, sets as they are: lowest rank correlation", 0.97, auc["seeds, as is"])
    yield _at_least("two seeds, thinned sets: lowest rank correlation", 0.97, auc["seeds, thinned"])


def _null(results):
    kinds = {kind: one for kind, one in null_figures(results).items() if kind != "all"}
    shares = [float(share) for one in kinds.values() for share in one["shares"]]
    yield _at_least("normal groups: share of p <= .1, lowest of three kinds and five fifths", 0.07, min(shares))
    yield _at_most("normal groups: the same, highest", 0.13, max(shares))
    for name, label in (("p", "p"), ("scores", "scores of new groups"), ("scores of fit", "scores of fit")):
        worst = max(abs(one[name]) for one in kinds.values())
        yield _at_most(f"normal groups: rank correlation of {label} with size, largest of three kinds", 0.05, worst)


def _days(results):
    yield _at_least("sensor days: seeds with both among the three lowest", len(results), days_found(results))


def _mean(aucs, label):
    return mean([own.get(label) for own in aucs.values()])


def _worst(aucs):
    return -next(iter(differences(aucs).values()))


def _at_least(what, bar, value):
    return {"what": what, "bar": bar, "measured": value, "met": "yes" if value >= bar else "NO"}


def _at_most(what, bar, value):
    return {"what": what, "bar": bar, "measured": value, "met": "yes" if value <= bar else "NO"}


BARS = {
    "tables": _tables,
    "adbench": _adbench,
    "clumps": _clumps,
    "groups": _groups,
    "null": _null,
    "days": _days,
}
