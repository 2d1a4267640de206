"""Text and numbers from the data, made fit for a page."""

import json
from typing import Any

LONGEST_COMMAND = 4_000


def brief(value: float, digits: int = 4) -> float:
    """Few digits are enough for a picture, and make the page small."""
    return float(f"{value:.{digits}g}")


def embedded(payload: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or begins another."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
