"""Tables in, ranked tables out: ``detect_points`` and ``detect_groups``; ``fit_points`` and ``fit_groups`` learn."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isobag.tables.detect import detect_groups, detect_points, rank_frame
    from isobag.tables.model import TableModel, fit_groups, fit_points

__all__ = ["TableModel", "detect_groups", "detect_points", "fit_groups", "fit_points", "rank_frame"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: the command needs parts of this room that load quickly."""
    if name in __all__:
        from isobag.tables import detect, model  # noqa: PLC0415, load scikit-learn

        return getattr(detect if hasattr(detect, name) else model, name)
    raise AttributeError(f"module 'isobag.tables' has no attribute {name!r}")
