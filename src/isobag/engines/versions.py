"""The version of isobag, which must be one wherever a table is looked at."""

from importlib import import_module


def own_version() -> str:
    """The version of isobag in this process."""
    version: str = import_module("isobag").__version__
    return version


def check_version(needed: str, where: str) -> None:
    """Refuse to compute with another version than who asks for it has; ``where``: the worker that this is."""
    if own_version() != needed:
        raise ValueError(other_version(where, own_version(), needed))


def other_version(where: str, version: str, needed: str) -> str:
    """What is wrong with a worker of another version."""
    return (
        f"{where} has isobag {version}; need {needed}, as here, or scores would be a mixture of two versions. Install "
        "the same everywhere."
    )
