"""The page a person looks at: one HTML file that needs no network, no server and no other file."""

import os
from typing import Any

from isobag.report.page import write_report
from isobag.tables.detect import rank_frame

__all__ = ["report_groups", "report_points", "write_report"]


def report_points(frame: Any, path: str | os.PathLike[str], *, source: str = "", **options: Any) -> None:
    """Rank the rows of a frame and write the page about them; options as in ``detect_points``.

    ``source`` says on the page where the data come from; ``keep`` names columns to show beside each row.
    """
    write_report(rank_frame(frame, **options), path, source=source)


def report_groups(frame: Any, by: Any, path: str | os.PathLike[str], *, source: str = "", **options: Any) -> None:
    """Rank the groups of a frame and write the page about them; options as in ``detect_groups``."""
    write_report(rank_frame(frame, by=by, **options), path, source=source)
