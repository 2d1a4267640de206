"""Options in errors as they were typed: the library says max_samples=1, the command --psi 1."""

import re
from collections.abc import Sequence

_PARAMETER = re.compile(
    r"(?<![\w'\"-])(max_samples|group_max_samples|n_estimators|contamination|n_permutations|fdr|n_jobs|min_size)="
    r"('[^']*'|[^\s;,]+)"
)
_SPELLINGS = {
    "max_samples": ("--max-samples", "--psi"),
    "n_estimators": ("--n-estimators", "-t"),
    "n_jobs": ("--jobs",),
}
_typed: list[str] = []


def remember(args: Sequence[str]) -> None:
    """Keep what was typed, for errors."""
    _typed[:] = args


def as_typed(sentence: str) -> str:
    """A sentence about a parameter as one about an option.

    >>> as_typed("max_samples=1; need 'auto' or an integer of 2 or more.")
    "--max-samples 1; need 'auto' or an integer of 2 or more."
    """
    return _PARAMETER.sub(lambda found: f"{_option(found[1])} {found[2]}", sentence)


def _option(name: str) -> str:
    known = _SPELLINGS.get(name, (f"--{name.replace('_', '-')}",))
    typed = [one for one in known if any(arg == one or arg.startswith((f"{one}=",)) for arg in _typed)]
    short = [one for one in known if len(one) == 2 and any(arg.startswith(one) for arg in _typed)]
    return (typed or short or list(known))[0]
