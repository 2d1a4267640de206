"""What travels to the executors: once to each machine, unpacked once in each process that needs it."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark import cloudpickle
from pyspark.sql.utils import is_remote

_KEPT = 2
_unpacked: OrderedDict[str, Any] = OrderedDict()


@dataclass(frozen=True)
class Sent:
    """Something sent to the executors: a broadcast variable, or, over Spark Connect, which has none, part of the plan.

    key : its own.
    packed : its bytes, or the variable that holds them.
    """

    key: str
    packed: Any

    @property
    def value(self) -> Any:
        """What was sent; a process keeps the last few, for the tasks that follow."""
        if self.key not in _unpacked:
            packed = self.packed if isinstance(self.packed, bytes) else self.packed.value
            _unpacked[self.key] = cloudpickle.loads(packed)
        _unpacked.move_to_end(self.key)
        while len(_unpacked) > _KEPT:
            _unpacked.popitem(last=False)
        return _unpacked[self.key]

    def forget(self) -> None:
        """Free it everywhere: nothing needs it any more."""
        if not isinstance(self.packed, bytes):
            self.packed.destroy()


def send(frame: Any, value: Any) -> Sent:
    """Send something to the executors of a frame."""
    packed = cloudpickle.dumps(value)
    return Sent(uuid4().hex, packed if is_remote() else frame.sparkSession.sparkContext.broadcast(packed))
