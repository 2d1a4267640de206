"""Tables in, ranked tables out: ``detect_points`` and ``detect_groups``."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isobag.tables.detect import detect_groups, detect_points

__all__ = ["detect_groups", "detect_points"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: the command needs parts of this room that load quickly."""
    if name in __all__:
        from isobag.tables import detect  # noqa: PLC0415, loads scikit-learn

        return getattr(detect, name)
    raise AttributeError(f"module 'isobag.tables' has no attribute {name!r}")
