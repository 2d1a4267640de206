"""Odd rows of a table: ``detect_points``."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isobag.backends.arrays import Bools, Floats, Ints
from isobag.data.rows import take_in_order
from isobag.data.validation import check_flag
from isobag.estimators import IDKPointDetector
from isobag.estimators.checked import fit_to_rows, p_values_of_rows, score_rows
from isobag.tables.crossfit import cross_p_values_of_rows
from isobag.tables.encoding import open_frame
from isobag.tables.reasons import reasons_of_points
from isobag.tables.table import Table, read_frame

MOST_ROWS_WITH_REASONS = 1_000


class PointResults(NamedTuple):
    """What was found out about the n rows of a table, the oddest first.

    order : (n,), row numbers, the lowest score first; rows that were left out stand last.
    scores, p_values : (n,), in the order of the table, NaN for rows that were left out; p_values may be None.
    reasons : of the first rows of ``order``.
    """

    detector: IDKPointDetector
    table: Table
    order: npt.NDArray[np.int32] | Ints
    scores: Floats
    p_values: Floats | None
    reasons: list[str]

    def flagged(self, rows: Ints) -> Bools:
        """Which of the rows have a score below the threshold of the detector: (k,) -> (k,)."""
        found: Bools = self.scores[rows] < self.detector.offset_  # never for NaN
        return found

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """Columns of the ranked table, from rank start + 1 to rank stop."""
        rows = self.order[start:stop].astype(np.int64)
        found: dict[str, Any] = {
            "row": rows,
            "score": self.scores[rows],
            "rank": np.arange(start, start + len(rows)) + 1,
        }
        if self.p_values is not None:
            found["p_value"] = self.p_values[rows]
        found["flagged"] = self.flagged(rows)
        if self.table.gaps is not None:
            found["n_missing"] = self.table.gaps[rows].astype(np.int64)
        reasons = self.reasons[start:stop]
        found["reasons"] = reasons + [""] * (len(rows) - len(reasons))
        return found


def detect_points(
    frame: Any,
    *,
    features: Iterable[Any] | str | None = None,
    id: Any = None,
    missing: str = "error",
    p_values: bool = True,
    random_state: Any = None,
    **options: Any,
) -> Any:
    """The rows of a frame, the oddest first: a frame of the same library.

    Its columns: ``id`` (if asked for), ``row`` (position in the input, from 0), ``score`` (in [0, 1], higher = more
    normal), ``rank`` (1 = oddest; equal scores in the order of the input), ``p_value``, ``flagged`` (score below the
    threshold of the detector), ``n_missing`` (unless missing="error") and ``reasons`` (for the 1,000 oddest rows, else
    empty): the columns that make a row odd, its values there, and whether they are in the upper or lower quarter of
    the data. A pandas frame keeps its index labels.

    The p-value of a row says how rare its score is among rows that its detector has not learned from: the rows are
    dealt out to two halves, a detector learns from each half (at most 10,000 rows), and scores the other. A row drawn
    like the others has a p-value of at most alpha with a probability of at most alpha. Odd rows in the data make
    p-values larger. Fewer than 4 rows have p-values of 1.

    Parameters
    ----------
    frame : pandas, polars or Arrow.
    features : columns to look at; by default all columns of numbers. True and false become 1 and 0. Text becomes one
        indicator for each of the 20 most frequent texts of the column. Dates are refused.
    id : a column to name rows by, which is no feature.
    missing : "error"; "drop" leaves out rows with missing values, which then stand last, without a score; "median" puts
        in the column's median, or its most frequent text.
    p_values : False saves about half of the time.
    random_state : seed; with an integer the result is always the same.
    options : those of IDKPointDetector.

    Examples
    --------
    >>> import pandas as pd
    >>> from isobag import detect_points
    >>> frame = pd.DataFrame({"height": [170 + i % 7 for i in range(50)], "weight": [70 + i % 5 for i in range(50)]})
    >>> frame.loc[50] = [171, 150]
    >>> detect_points(frame, random_state=0).head(1)[["row", "rank", "flagged", "reasons"]]
        row  rank  flagged            reasons
    50   50     1     True  weight 150 (high)
    """
    check_flag("p_values", p_values)
    given = open_frame(frame)
    _check_id(given, id)
    table = read_frame(given, features, missing, apart=id)
    found = find_points(table, IDKPointDetector(**options, random_state=random_state, calibrate=False), p_values)
    columns = found.columns(0, len(given))
    ranked = ranked_frame(given, id, columns["row"], columns).to_native()
    index = nw.maybe_get_index(given)
    if index is not None:
        ranked.index = index[found.order]
    return ranked


def find_points(
    table: Table, detector: IDKPointDetector, p_values: bool, most_reasons: int = MOST_ROWS_WITH_REASONS
) -> PointResults:
    """Fit the detector to the table and rank its rows; their own p-values by cross-fitting."""
    scores = table.spread(fit_to_rows(detector, table.rows, table.encoding.names))
    order = _ranks(scores)  # before p-values: sorting takes room
    own = table.spread(cross_p_values_of_rows(detector, table.rows)) if p_values else None
    return PointResults(detector, table, order, scores, own, _reasons(detector, table, order[:most_reasons]))


def score_points(
    table: Table, detector: IDKPointDetector, p_values: bool, most_reasons: int = MOST_ROWS_WITH_REASONS
) -> PointResults:
    """Rank the rows of a new table by a detector that was fitted before."""
    scores = table.spread(score_rows(detector, table.rows))
    order = _ranks(scores)
    new = table.spread(p_values_of_rows(detector, table.rows)) if p_values else None
    return PointResults(detector, table, order, scores, new, _reasons(detector, table, order[:most_reasons]))


def ranked_frame(like: nw.DataFrame[Any], label: Any, rows: Ints, columns: dict[str, Any]) -> nw.DataFrame[Any]:
    """The columns as a frame of the same library; before them, if there is one, the column of labels at the rows."""
    if label is None:
        return nw.from_dict(columns, backend=like.implementation)
    if label in columns:
        raise ValueError(f"The result has a column {label!r} of its own; rename the column of that name first.")
    series = [nw.new_series(name, values, backend=like.implementation) for name, values in columns.items()]
    return like.select(label)[rows].with_columns(*series)


def _ranks(scores: Floats) -> npt.NDArray[np.int32] | Ints:
    """Row numbers, the lowest score first and NaN last: (n,), in as little room as they need."""
    order = np.argsort(scores, kind="stable")
    return order.astype(np.int32) if len(scores) < 2**31 else order


def _reasons(detector: IDKPointDetector, table: Table, top: Any) -> list[str]:
    """Reasons of the first rows of a ranking, those left out not among them."""
    rows = top[: len(table.rows)].astype(np.int64)
    return reasons_of_points(detector, table.encoding, take_in_order(table.rows, table.positions(rows)))


def _check_id(frame: nw.DataFrame[Any], id: Any) -> None:
    if id is not None and id not in frame.columns:
        known = ", ".join(map(repr, frame.columns)) or "none"
        raise ValueError(f"id={id!r}; the table has no such column (columns: {known}).")
