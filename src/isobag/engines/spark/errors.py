"""What went wrong on the executors, in one sentence instead of two stack traces."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_ERROR = re.compile(r"^[\w.]+(Error|Exception|Exit|Interrupt)\b")
_JAVA_ERROR = re.compile(r"^(Caused by|): ?([\w$]+\.)+[\w$]+: (?P<words>.+)")


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Turn what Spark says of a job that failed into one sentence; its log has the rest."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise RuntimeError(f"Spark failed: {sentence_of(str(error))} (see its log)") from None


def sentence_of(words: str) -> str:
    """What happened: the error of a Python traceback, else the last cause of Java with words, else the first line."""
    lines = [line.strip() for line in words.splitlines() if line.strip()] or ["no reason given"]
    if _TRACEBACK in lines:
        return next(filter(_PYTHON_ERROR.match, lines[lines.index(_TRACEBACK) :]), lines[-1])
    causes = [match["words"] for match in map(_JAVA_ERROR.match, lines) if match is not None]
    return (causes or lines[:1])[-1]
