"""Text and numbers from the data, made fit for a page."""

import json
from typing import Any

from isobag.tables.terminal import escape_for_terminal

LONGEST = 300
LONGEST_COMMAND = 4_000


def shown(text: Any, most: int = LONGEST) -> str:
    """Text for people to read: cut in the middle if long, what acts or hides written out as on a terminal."""
    whole = str(text)
    half = most // 2
    return escape_for_terminal(whole if len(whole) <= most else f"{whole[:half]}…{whole[-half:]}")


def brief(value: float, digits: int = 4) -> float:
    """Few digits are enough for a picture, and make the page small."""
    return float(f"{value:.{digits}g}")


def embedded(payload: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or begins another."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
