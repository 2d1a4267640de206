"""Tables in, ranked tables out: ``detect_points`` and ``detect_groups``."""

from isobag.tables.detect import detect_groups, detect_points

__all__ = ["detect_groups", "detect_points"]
