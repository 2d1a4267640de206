"""What was asked of the defaults, and what was measured."""

from data import TABLES, adbench_sets, table_sets
from groups import figures
from harness import mean, table
from normal_groups import days_found, null_figures
from points import OURS, differences, measured_on
from rivals import PYOD


def bars(known):
    """A table of bars and measurements from the results of the sections that are complete."""
    rows = []
    if "tables" in known:
        by_part = {part: measured_on(known["tables"], part, table_sets()) for part in TABLES}
        for part, bar in (("clean", 0.775), ("5 %", 0.74)):
            aucs = by_part[part]
            rows.append(_at_least(f"tables, {part}: mean AUC", bar, _mean(aucs, OURS)))
            best = max(PYOD, key=lambda label, aucs=aucs: _mean(aucs, label))
            rows.append(
                _at_least(f"tables, {part}: above the best of PyOD ({best})", _mean(aucs, best), _mean(aucs, OURS))
            )
        rows += [
            _at_most(f"tables, {part}: worst loss to IsolationForest", 0.12, _worst(by_part[part])) for part in TABLES
        ]
    if "adbench" in known:
        aucs = measured_on(known["adbench"], "points", adbench_sets())
        rows.append(_at_least(f"ADBench, {len(aucs)} sets: mean AUC", 0.785, _mean(aucs, OURS)))
        rows.append(_at_most("ADBench: worst loss to IsolationForest", 0.12, _worst(aucs)))
    if "groups" in known:
        own = figures(known["groups"])
        rows.append(_at_least("groups, thinned: mean AUC", 0.9, own["thinned"]))
        rows.append(_at_least("groups as they are, without SDSS_0 and SDSS_50", 0.955, own["as is, easy"]))
        rows.append(_at_least("groups as they are, all", 0.9, own["as is"]))
        rows.append(
            _at_least("rank correlation of two seeds, lowest of the sets as they are", 0.97, own["seeds, as is"])
        )
        rows.append(_at_least("rank correlation of two seeds, lowest of the thinned", 0.97, own["seeds, thinned"]))
    if "days" in known:
        rows.append(
            _at_least("sensor days: seeds with both days among the three lowest", 20, days_found(known["days"]))
        )
    if "null" in known:
        own = null_figures(known["null"])
        kinds = {kind: one for kind, one in own.items() if kind != "all"}
        shares = [float(share) for one in kinds.values() for share in one["shares"]]
        rows.append(_at_least("normal groups: lowest share of p <= .1 in a fifth, of three kinds", 0.07, min(shares)))
        rows.append(_at_most("normal groups: highest share", 0.13, max(shares)))
        for name, label in (("p", "p"), ("scores", "scores of new groups"), ("scores of fit", "scores of fit")):
            worst = max(abs(one[name]) for one in kinds.values())
            rows.append(
                _at_most(f"normal groups: rank correlation of {label} with size, largest of three kinds", 0.05, worst)
            )
    if "cost" in known:
        for kind, setting, bar in (
            ("group", "level 2 of the paper", 1.3),
            ("group", "before", 1.3),
            ("point", "before", 1.1),
        ):
            measured = [
                own["default"] / own[setting]
                for key, own in known["cost"].items()
                if key.startswith(kind) and setting in own
            ]
            if measured:
                rows.append(_at_most(f"CPU time of {kind}s, default / {setting}: largest", bar, max(measured)))
    return table(rows)


def _mean(aucs, label):
    return mean([own.get(label) for own in aucs.values()])


def _worst(aucs):
    return -next(iter(differences(aucs).values()))


def _at_least(what, bar, value):
    return {"what": what, "bar": bar, "measured": value, "met": "yes" if value >= bar else "NO"}


def _at_most(what, bar, value):
    return {"what": what, "bar": bar, "measured": value, "met": "yes" if value <= bar else "NO"}
