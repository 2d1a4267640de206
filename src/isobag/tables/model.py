"""Learn from a frame, score other frames: a detector together with how a table becomes its features and groups."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import narwhals as nw

from isobag.backends.learned import Learned, demand
from isobag.engines import partitions_of
from isobag.estimators import IDKGroupDetector, IDKPointDetector
from isobag.storage.modelfile import save
from isobag.tables.cluster_scores import score_partitions
from isobag.tables.clusters import FrameOnly, learn_groups
from isobag.tables.detect import Names, encoding_of, fit_table, open_frame, prepare, with_labels
from isobag.tables.framesource import FrameSource
from isobag.tables.learn import learn_table
from isobag.tables.ranking import rank
from isobag.tables.reading import ReadOptions, names_of
from isobag.tables.times import Bags


@dataclass(frozen=True)
class Model(Learned):
    """What was learned from a table: scores other tables, texts and times in them too.

    Made by ``fit`` or ``isobag fit``, read by ``load`` and ``isobag score``.

    Parameters
    ----------
    detector : IDKPointDetector or IDKGroupDetector
        Fitted to the features of the table.
    by : tuple of column names
        What is judged; empty for rows.
    bags : Bags or None
        How the rows of a label are divided by time.
    """

    detector: IDKPointDetector | IDKGroupDetector
    by: tuple[str, ...] = ()
    bags: Bags | None = None

    def __repr__(self) -> str:
        by = f", by={self.by[0] if len(self.by) == 1 else list(self.by)!r}" if self.by else ""
        return f"Model({self.detector!r}{by})"

    def validate(self) -> None:
        """Raise a ValueError where the labels do not fit the detector."""
        demand(bool(self.by) <= isinstance(self.detector, IDKGroupDetector), "labels of groups for a detector of rows")

    def score(
        self, frame: Any, fdr: float | None = None, *, by: Any = None, id_column: Any = None, keep: Names = ()
    ) -> Any:
        """Rank the rows of a frame, or its groups, against those of ``fit``, the oddest first.

        Parameters
        ----------
        frame : frame or array
            As in ``detect``, with the columns that were learned from.
        fdr : float, optional
            Flag so that at most this share of those flagged is false, on average. By default the score decides.
        by : column name, list of them, or array of labels
            Where the labels of groups are, if not in the columns of ``fit``.
        id_column, keep
            As in ``detect``.

        Returns
        -------
        Ranking
            As of ``detect``, with ``p_value`` instead of ``rank_share``.
        """
        frame, by = with_labels(frame, by, "by")
        options = self.read_options(by=by, id=id_column, carry=keep)
        partitions = partitions_of(frame)
        if partitions is not None:
            encoding = encoding_of(self.detector, partitions.schema.names, [*options.apart])
            return FrameOnly(score_partitions(partitions, self.detector, encoding, options, fdr))
        opened = open_frame(frame)
        source = FrameSource(opened)
        table = learn_table(source, options, encoding=encoding_of(self.detector, source.columns, [*options.apart]))
        table.summary.warn_of_remarks()
        return rank(table, self.detector, is_fitted=True, fdr=fdr, frame=opened)

    def read_options(self, by: Any = None, **options: Any) -> ReadOptions:
        """How a table that is to be scored is read."""
        is_grouped = isinstance(self.detector, IDKGroupDetector)
        names = names_of(by) or self.by
        if is_grouped and not names:
            raise ValueError("The model scores groups; name the column of their labels with by=.")
        if names and not is_grouped:
            raise ValueError(f"by={', '.join(names)!r}; the model scores rows.")
        return ReadOptions.of(by=names, bags=self.bags, **options)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file that ``isobag.load`` and ``isobag score`` read."""
        save(self, path)


def fit(
    frame: Any,
    by: Any = None,
    *,
    within: Any = None,
    time: Any = None,
    every: str | None = None,
    sessions: str | None = None,
    time_zone: str | None = None,
    time_unit: str | None = None,
    features: Names = None,
    exclude: Names = None,
    id_column: Any = None,
    missing: str = "auto",
    bad_cells: str = "error",
    decimal: str = ".",
    thousands: str = "",
    numbers: str = "strict",
    dates: str = "",
    min_size: int = 1,
    contamination: float | str = "auto",
    n_estimators: int = 100,
    max_samples: int | str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Model:
    """Learn what the rows of a frame are like, or with ``by`` groups of them, to score other frames.

    Parameters
    ----------
    frame, by, ...
        As in ``detect``. ``Model.score`` reads other frames the same way.

    Examples
    --------
    >>> import numpy as np, pandas as pd, isobag
    >>> rng = np.random.default_rng(0)
    >>> def day(n):
    ...     return pd.DataFrame({"minutes": rng.gamma(3, 10, n).round(1), "country": rng.choice(["DE", "FR"], n)})
    >>> model = isobag.fit(day(500), features=["minutes", "country"], random_state=0)
    >>> today = day(50)
    >>> today.loc[7, "minutes"] = 900.0
    >>> model.score(today, fdr=0.1).to_frame().head(1)[["row", "flagged", "reasons"]]
       row  flagged                                reasons
    7    7     True  minutes 900 (high, usually 9.9 to 61)
    """
    opened, table, detector = prepare(**locals(), keep=())
    if table.by and not isinstance(opened, nw.DataFrame):
        learn_groups(opened, table, detector, min_size)
    else:
        fit_table(table, detector, min_size)
    if not isinstance(opened, nw.DataFrame) and not table.by and len(table.rows) < table.n_rows:
        del detector.scores_  # of a sample alone
    return Model(detector, table.options.by, table.options.bags)
