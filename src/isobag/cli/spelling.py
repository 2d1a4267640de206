"""Options in errors as they were typed: the library says max_samples=1, the command --psi 1."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isobag.data.params import Option

_SPELLINGS = {
    "max_samples": ("--max-samples", "--psi"),
    "n_estimators": ("--n-estimators", "-t"),
    "n_jobs": ("--jobs",),
}
_typed: list[str] = []


def remember(args: Sequence[str]) -> None:
    """Keep what was typed, for errors."""
    _typed[:] = args


def on_command_line(option: "Option") -> str:
    """An option as it was typed, or would be: --bad-cells missing."""
    known = _SPELLINGS.get(option.name, (f"--{option.name.replace('_', '-')}",))
    typed = [one for one in known if any(arg == one or arg.startswith(f"{one}=") for arg in _typed)]
    short = [one for one in known if len(one) == 2 and any(arg.startswith(one) for arg in _typed)]
    name = (typed or short or list(known))[0]
    return name if option.value is None else f"{name} {option.value}"
