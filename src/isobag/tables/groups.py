"""Odd groups of the rows of a table: ``detect_groups``."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.groups import Bags, number_labels
from isobag.data.rows import ArrayRows
from isobag.data.validation import check_flag
from isobag.estimators import IDKGroupDetector
from isobag.estimators.checked import fit_to_groups, p_values_of_groups
from isobag.tables.crossfit import cross_p_values_of_groups
from isobag.tables.encoding import Encoding, open_frame
from isobag.tables.points import ranked_frame
from isobag.tables.reasons import reasons_of_groups
from isobag.tables.table import Table, read_frame

MOST_GROUPS_WITH_REASONS = 200


class GroupResults(NamedTuple):
    """What was found out about g groups, the oddest first.

    order : (g,), numbers of the groups by first appearance, the lowest score first; those without points stand last.
    first_rows : (g,), the row of the table in which each group first appears.
    scores, p_values : (g,), NaN for groups without points; p_values may be None.
    """

    detector: IDKGroupDetector
    order: Ints
    first_rows: Ints
    n_points: Ints
    scores: Floats
    p_values: Floats | None
    n_missing: Ints | None
    reasons: list[str]
    encoding: Encoding

    @property
    def flagged(self) -> Bools:
        """Whether the score of each group is below the threshold of the detector: (g,)."""
        found: Bools = self.scores < self.detector.offset_
        return found

    def columns(self) -> dict[str, Any]:
        """Columns of the ranked table."""
        found: dict[str, Any] = {"n_points": self.n_points[self.order], "score": self.scores[self.order]}
        found["rank"] = np.arange(len(self.order)) + 1
        if self.p_values is not None:
            found["p_value"] = self.p_values[self.order]
        found["flagged"] = self.flagged[self.order]
        if self.n_missing is not None:
            found["n_missing"] = self.n_missing[self.order]
        found["reasons"] = self.reasons + [""] * (len(self.order) - len(self.reasons))
        return found


def detect_groups(
    frame: Any,
    by: Any,
    *,
    features: Iterable[Any] | str | None = None,
    missing: str = "error",
    p_values: bool = True,
    random_state: Any = None,
    **options: Any,
) -> Any:
    """The groups of the rows of a frame, the oddest first: a frame of the same library.

    Its columns: the label (called as the column ``by``), ``n_points``, ``score`` (in [0, 1], higher = more normal),
    ``rank`` (1 = oddest), ``p_value``, ``flagged``, ``n_missing`` (unless missing="error": rows with missing values)
    and ``reasons`` (for the 200 oddest groups, else empty): the features that set the points of which the group has too
    many apart from all points, the median of these points, and whether it is high or low.

    P-values are those of ``detect_points``, with groups in the place of rows: a detector learns from each half of the
    groups (at most 2,000) and scores the other. Fewer than 4 groups have p-values of 1.

    Parameters
    ----------
    frame : pandas, polars or Arrow.
    by : the column with the label of each row's group.
    features, missing, p_values, random_state : as in ``detect_points``; a group whose rows are all left out stands
        last, without a score.
    options : those of IDKGroupDetector.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from isobag import detect_groups
    >>> rng = np.random.default_rng(0)
    >>> spread = np.repeat([1.0] * 40 + [0.1], 30)  # of the 41 accounts the last has all its points in the middle
    >>> frame = pd.DataFrame({"account": np.repeat(np.arange(41), 30), "amount": rng.normal(size=1230) * spread})
    >>> detect_groups(frame, by="account", random_state=0).head(1)[["account", "n_points", "rank"]]
       account  n_points  rank
    0       40        30     1
    """
    check_flag("p_values", p_values)
    given = open_frame(frame)
    if by not in given.columns:
        known = ", ".join(map(repr, given.columns)) or "none"
        raise ValueError(f"by={by!r}; the table has no such column (columns: {known}).")
    table = read_frame(given, features, missing, apart=by)
    labels = given.get_column(by)
    detector = IDKGroupDetector(**options, random_state=random_state, calibrate=False)
    found = find_groups(table, labels.to_numpy(), detector, p_values)
    ranked = ranked_frame(given, by, found.first_rows[found.order], found.columns())
    return nw.maybe_reset_index(ranked).to_native()


class TableGroups(NamedTuple):
    """The groups of a table: those with points, the number of each row's group, all labels, numbers of the former."""

    bags: Bags
    ids: Ints
    labels: Any
    with_points: Ints


def bags_of(table: Table, labels: Any) -> TableGroups:
    """The groups of a table in memory, by one label for each of its rows: (n,)."""
    assert isinstance(table.rows, ArrayRows)  # groups are read into memory
    ids, names = number_labels(labels)
    here, where = np.unique(ids if table.kept is None else ids[table.kept], return_inverse=True)
    return TableGroups(Bags(table.rows.X, where, names[here]), ids, names, here)


def find_groups(
    table: Table, labels: Any, detector: IDKGroupDetector, p_values: bool, is_fitted: bool = False
) -> GroupResults:
    """Rank the groups of a table by a detector fitted to them, or by one that was fitted before."""
    bags, ids, names, here = bags_of(table, labels)
    if is_fitted:
        scores = detector._score_groups(bags)
        own = p_values_of_groups(detector, bags) if p_values else None
    else:
        scores = fit_to_groups(detector, bags, table.encoding.names)
        own = cross_p_values_of_groups(detector, bags) if p_values else None
    ranked = np.argsort(scores, kind="stable")
    reasons = reasons_of_groups(detector, table.encoding, bags.take(ranked[:MOST_GROUPS_WITH_REASONS]))
    n_points = np.zeros(len(names), dtype=np.int64)
    n_points[here] = bags.sizes
    spread = np.full(len(names), np.nan)
    spread[here] = scores
    n_missing = None
    if table.gaps is not None:
        n_missing = np.bincount(ids, weights=table.gaps > 0, minlength=len(names)).astype(np.int64)
    if own is not None:
        found = np.full(len(names), np.nan)
        found[here] = own
        own = found
    return GroupResults(
        detector,
        np.argsort(spread, kind="stable"),
        np.unique(ids, return_index=True)[1],
        n_points,
        spread,
        own,
        n_missing,
        reasons,
        table.encoding,
    )
