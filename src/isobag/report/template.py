"""Templates filled in: one HTML file with its style and script inside, with a policy that forbids loading anything.

Also text and numbers from the data, escaped and rounded for it.
"""

import base64
import hashlib
import json
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from typing import Any

LONGEST_COMMAND = 4_000


def fill_template(name: str, *, script: str = "", date: datetime | None = None, **values: Any) -> str:
    """A page as text, from a template, the common style, and the script of that name if there is one."""
    folder = files("isobag.report")
    style = (folder / "page.css").read_text("utf-8")
    code = (folder / script).read_text("utf-8") if script else ""
    template = _jinja_environment().get_template(name)
    code_policy = f"script-src 'sha256-{_hash(code)}'; " if script else ""
    return str(
        template.render(
            **values,
            policy=f"default-src 'none'; {code_policy}style-src 'sha256-{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'",
            date=(date or datetime.now().astimezone()).strftime("%Y-%m-%d %H:%M %Z"),
            version=import_module("isobag").__version__,
            style=style,
            script=code,
        )
    )


def _hash(text: str) -> str:
    """What the page's own policy calls a script or style by, so that no other may run."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _jinja_environment() -> Any:
    try:
        import jinja2  # noqa: PLC0415, an extra: most users of the library write no reports
    except ImportError:
        raise ImportError('Reports need jinja2, which is missing: pip install "isobag[report]".') from None
    return jinja2.Environment(
        loader=jinja2.PackageLoader("isobag.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def brief(value: float, digits: int = 4) -> float:
    """Few digits are enough for a picture, and make the page small."""
    return float(f"{value:.{digits}g}")


def embedded(payload: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or begins another."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
