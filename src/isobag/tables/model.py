"""Learn from a frame, score other frames: a detector together with how columns become its features."""

from collections.abc import Iterable
from typing import Any

import narwhals as nw

from isobag.engines import partitions_of
from isobag.estimators import IDKGroupDetector
from isobag.tables.buckets import score_in_buckets
from isobag.tables.clusters import score_rows
from isobag.tables.detect import encoding_of, fit, ranked_frame, read_for
from isobag.tables.ranking import rank
from isobag.tables.reading import names_of


class TableModel:
    """A fitted detector that scores frames, texts and times in them too, as ``isobag score`` scores files.

    ``isobag.save(model.detector, "normal.isobag")`` writes the file that the command reads and writes.

    Parameters
    ----------
    detector : IDKPointDetector or IDKGroupDetector
        Fitted by ``fit_points``, ``fit_groups`` or ``isobag fit``; ``TableModel(isobag.load("normal.isobag"))``.
    by : column name, or list of them
        Of groups: where their labels are; the default of ``score``.
    """

    def __init__(self, detector: Any, by: Any = None) -> None:
        self.detector = detector
        self.by = by

    def __repr__(self) -> str:
        return f"TableModel({self.detector!r})"

    def score(self, frame: Any, *, by: Any = None, id_column: Any = None, fdr: float | None = None) -> Any:
        """Rank the rows of a frame, or its groups, against those of ``fit``, the oddest first.

        Returns a frame of the same library with the columns of ``detect_points`` or ``detect_groups``; instead of
        ``rank_share`` it has ``p_value`` and ``extrapolated``, and of groups ``p_shape`` and ``p_size``. With ``fdr``,
        ``flagged`` are alarms of which at most this share is false, on average.
        """
        partitions = partitions_of(frame)
        if partitions is not None:
            return self._score_there(partitions, self.by if by is None else by, id_column, fdr)
        given, table = read_for(self.detector, frame, self.by if by is None else by, id_column)
        ranking = rank(table, self.detector, is_fitted=True, fdr=fdr)
        apart = [name for name in given.columns if str(name) in (*table.by, table.options.id, *table.options.baseline)]
        ranked = nw.from_native(ranked_frame(given, ranking, apart), eager_only=True)
        return nw.maybe_reset_index(ranked).to_native()

    def _score_there(self, partitions: Any, by: Any, id_column: Any, fdr: float | None) -> Any:
        """Rows or groups of Dask and Spark, scored where they are."""
        apart = names_of(by) if isinstance(self.detector, IDKGroupDetector) else names_of(id_column)
        encoding = encoding_of(self.detector, partitions.schema.names, apart)
        if isinstance(self.detector, IDKGroupDetector):
            return score_in_buckets(partitions, self.detector, encoding, by, fdr)
        return score_rows(partitions, self.detector, encoding, fdr)


def fit_points(frame: Any, *, features: Iterable[Any] | str | None = None, **options: Any) -> TableModel:
    """Learn what rows of a frame are like, to score other frames by; options as of ``detect_points``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, isobag
    >>> rng = np.random.default_rng(0)
    >>> def day(n):
    ...     return pd.DataFrame({"minutes": rng.gamma(3, 10, n).round(1), "country": rng.choice(["DE", "FR"], n)})
    >>> model = isobag.fit_points(day(500), features=["minutes", "country"], random_state=0)
    >>> today = day(50)
    >>> today.loc[7, "minutes"] = 900.0
    >>> model.score(today, fdr=0.1).head(1)[["row", "flagged", "reasons"]]
       row  flagged                                reasons
    0    7     True  minutes 900 (high, usually 9.9 to 61)
    """
    return TableModel(fit(frame, features=features, **options))


def fit_groups(frame: Any, by: Any, *, features: Iterable[Any] | str | None = None, **options: Any) -> TableModel:
    """Learn what groups of the rows of a frame are like, to score other frames by; options as of ``detect_groups``."""
    return TableModel(fit(frame, by=by, features=features, **options), by)
