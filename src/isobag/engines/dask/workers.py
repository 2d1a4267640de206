"""The workers of a Dask cluster: which isobag they have, and whether they work while their results are waited for."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any

import dask
from dask.utils import parse_timedelta

from isobag.engines.versions import other_version, own_version

Say = Callable[[str], None]
"""Takes a remark for a person."""
ASKED_S = 10
"""Seconds that workers have to report their version; one that hangs never would."""
PATIENCE_S = 30
"""Seconds without any worker that works, unless Dask is set to another ``distributed.scheduler.no-workers-timeout``."""
STILL_S = 30
"""Seconds without a sign of life after which a worker is named."""


class WorkersDiedError(RuntimeError):
    """Workers died of the same partition, one after another, or none is left that works."""


class Workers:
    """The workers of a client.

    say : takes remarks while there is something to wait for; by default they are warnings.
    """

    def __init__(self, client: Any, say: Say | None = None) -> None:
        self._client, self._say = client, say or warn
        self._versions: dict[str, str | None] = {}
        self._signs: dict[str, tuple[Any, float]] = {}
        self._named: set[str] = set()
        self._worked_at = monotonic()

    def begin(self) -> None:
        """Work begins: check the version of new workers, and reset the clock of how long none has worked."""
        self._worked_at = monotonic()
        self._signs.clear()
        self._ask(self._workers())

    def look(self) -> None:
        """Look after the workers while a result is waited for.

        New ones are checked, those that hang are reported, and it is an error if none has worked for long.
        """
        workers, now = self._workers(), monotonic()
        self._ask(workers)
        for address, one in workers.items():
            if self._signs.get(address, (None, now))[0] != one["last_seen"]:
                self._signs[address] = one["last_seen"], now
                self._named.discard(address)
            elif now - self._signs[address][1] > STILL_S and address not in self._named:
                self._named.add(address)
                self._say(
                    f"Dask worker {_named(address, workers)} has given no sign of life for {STILL_S} s; what it has is "
                    "waited for. If it does not come back, stop it: others then do its work."
                )
        if any(one["status"] == "running" for one in workers.values()):
            self._worked_at = now
        elif now - self._worked_at > _patience():
            raise WorkersDiedError(none_left(_patience(), workers.values()))

    def _workers(self) -> Mapping[str, Any]:
        try:
            known: Mapping[str, Any] | None = self._client.scheduler_info(n_workers=-1).get("workers")
        except OSError:
            known = None
        if known is None:  # a client that tries to reach its scheduler again has lost all that it waits for
            raise WorkersDiedError(scheduler_lost(self._client))
        return known

    def _ask(self, workers: Mapping[str, Any]) -> None:
        """Ask workers for the version of isobag; another than here is an error, none at all is said."""
        new = sorted(workers.keys() - self._versions.keys())
        if not new:
            return
        self._versions |= dict.fromkeys(new, own_version())
        try:
            answers = self._client.run(_version_probe(), workers=new, on_error="return", callback_timeout=ASKED_S)
        except TimeoutError:  # every task compares versions, too
            return
        self._versions |= {address: one for address, one in answers.items() if not isinstance(one, Exception)}
        for address in new:
            version = self._versions[address]
            if version is not None and version != own_version():
                raise ValueError(other_version(f"Dask worker {_named(address, workers)}", version, own_version()))
        lacking = [address for address in new if self._versions[address] is None]
        if lacking and all(self._versions[address] is None for address in workers):
            raise ValueError(
                f"No Dask worker can load isobag (asked: {_listed(lacking, workers)}); install isobag "
                f"{own_version()} on all of them."
            )
        for address in lacking:
            self._say(
                f"Dask worker {_named(address, workers)} cannot load isobag and does none of the work; install isobag "
                f"{own_version()} there."
            )


def warn(remark: str) -> None:
    """A remark as a warning."""
    warnings.warn(remark, RuntimeWarning, stacklevel=2)


def scheduler_lost(client: Any) -> str:
    """What is wrong where the scheduler does not answer."""
    return f"The Dask scheduler at {client.scheduler.address} went away; start it, and try again."


def none_left(seconds: float, workers: Iterable[Mapping[str, Any]]) -> str:
    """What is wrong where no worker works; ``workers``: those that there are."""
    limits = [one["memory_limit"] for one in workers if one["status"] == "paused" and one["memory_limit"]]
    if not limits:
        return f"No worker was left for {seconds:.0f} s; start some, and try again."
    return (
        f"No worker was left for {seconds:.0f} s that has memory to work: {len(limits):,} paused, with at most "
        f"{max(limits) / 1e6:,.0f} MB each; give every worker more memory, or make partitions smaller, and try again."
    )


def _patience() -> float:
    seconds: Any = parse_timedelta(dask.config.get("distributed.scheduler.no-workers-timeout", None))
    return PATIENCE_S if seconds is None else float(seconds)


def _named(address: str, workers: Mapping[str, Any]) -> str:
    name = workers[address]["name"]
    return address if name in (None, address) else f"{address} ({name})"


def _listed(addresses: Iterable[str], workers: Mapping[str, Any]) -> str:
    return ", ".join(_named(address, workers) for address in addresses)


def _version_probe() -> Callable[[], str | None]:
    """A function that travels by its code, so that it runs where there is no isobag, and says the version of it."""

    def version() -> str | None:
        try:
            from importlib import import_module  # noqa: PLC0415

            there: str = import_module("isobag").__version__
        except ImportError:
            return None
        return there

    return version
