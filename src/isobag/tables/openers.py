"""Bytes of files: opened as often as asked, unpacked, and as UTF-8 whatever they are written in."""

import bz2
import codecs
import gzip
import io
import lzma
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from isobag.tables.terminal import escape_for_terminal

STDIN = "-"
_STDIN_PATHS = (STDIN, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
PACKED = (".gz", ".bz2", ".xz", ".zst")
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
_KINDS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"PK\x03\x04": ".xlsx"}
"""First bytes of what comes without a name, packed or not, and the ending that a file of it would have."""
_UNPACK: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": lambda raw: pa.CompressedInputStream(raw, "zstd"),
}
_BUFFER = 1 << 20


def is_stdin(name: str) -> bool:
    """Whether a name stands for standard input."""
    return name in _STDIN_PATHS


def is_pipe(file: str) -> bool:
    """Whether a file can be read once only, as those of a shell's <(...)."""
    return stat.S_ISFIFO(os.stat(file).st_mode)


def check_encoding(encoding: str | None) -> None:
    """Refuse what is no encoding of text."""
    try:
        "a".encode(encoding or "utf-8")
    except (LookupError, ValueError):
        raise ValueError(
            f"encoding={encoding!r}; need an encoding of text, such as utf-8, latin-1, cp1252 or utf-16."
        ) from None


class Opener:
    """Opens a file at its start as often as asked.

    What can be read once only, standard input and pipes, is kept in a temporary file without a name, unpacked.

    encoding : what the text is written in, of which UTF-8 is made; None if it is UTF-8.
    """

    def __init__(self, file: str, encoding: str | None = None) -> None:
        self.file, self._encoding = file, encoding
        self.is_piped = file == STDIN or is_pipe(file)
        self.name = "standard input" if file == STDIN else escape_for_terminal(file)
        self._piped = _keep_piped(file, self.name) if self.is_piped else None
        if self._piped is not None:
            weakref.finalize(self, self._piped.close)

    def __call__(self) -> IO[bytes]:
        """The bytes of the file, from its start; who reads them closes the stream."""
        stream = self.unpacked()
        if self._encoding is None:
            return stream
        return io.BufferedReader(_Pieces(_recoded(stream, self.name, self._encoding), stream), _BUFFER)

    def unpacked(self) -> IO[bytes]:
        """The same, in the encoding of the file."""
        if self._piped is not None:
            self._piped.seek(0)
            return open(os.dup(self._piped.fileno()), "rb")
        ending = Path(self.file).suffix.lower()
        raw = pa.OSFile(self.file) if ending == ".zst" else open(self.file, "rb")  # noqa: SIM115
        return _unpack(raw, ending, self.name) if ending in PACKED else raw

    def guessed_kind(self) -> str:
        """The ending that says how a file without a name is written, by its first bytes; ".csv" if they say nothing."""
        with self() as stream:
            first = stream.read(1 << 12)
        if b"".join(first.removeprefix(codecs.BOM_UTF8).split()).startswith((b"{", b"[{")):
            return ".json"
        return next((kind for magic, kind in _KINDS.items() if first.startswith(magic)), ".csv")


def _keep_piped(file: str, name: str) -> Any:
    """A temporary file without a name, with what comes through a pipe."""
    piped = tempfile.TemporaryFile(prefix="isobag-", buffering=0)  # noqa: SIM115, open while in use
    with nullcontext(sys.stdin.buffer) if file == STDIN else open(file, "rb") as stream:
        shutil.copyfileobj(stream, piped, _BUFFER)
    piped.seek(0)
    first = piped.read(8)
    piped.seek(0)
    ending = next((own for magic, own in _MAGIC.items() if first.startswith(magic)), None)
    if ending is None:
        return piped
    unpacked = tempfile.TemporaryFile(prefix="isobag-", buffering=0)  # noqa: SIM115, open while in use
    try:
        with _unpack(piped, ending, name) as stream:
            shutil.copyfileobj(stream, unpacked, _BUFFER)
    except BaseException:
        unpacked.close()
        raise
    return unpacked


def _unpack(raw: Any, ending: str, name: str) -> IO[bytes]:
    stream = _UNPACK[ending](raw)
    return io.BufferedReader(_Pieces(_unpacked(stream, name), stream, raw), _BUFFER)


class _Pieces(io.RawIOBase):
    """Bytes that come in pieces, none of them empty, as a stream; ``sources`` are closed with it."""

    def __init__(self, pieces: Iterator[bytes], *sources: Any) -> None:
        self._pieces, self._sources, self._rest = pieces, sources, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or memoryview(next(self._pieces, b""))
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n

    def close(self) -> None:
        for source in self._sources:
            source.close()
        super().close()


def _unpacked(stream: Any, name: str) -> Iterator[bytes]:
    """The content of a compressed file; an error is one sentence."""
    try:
        while piece := stream.read(_BUFFER):
            yield piece
    except (OSError, EOFError, lzma.LZMAError, pa.ArrowInvalid) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{name} cannot be unpacked: {reason}") from None


def _recoded(stream: IO[bytes], name: str, encoding: str) -> Iterator[bytes]:
    """Text of another encoding as UTF-8; a byte that does not decode is an error of one sentence."""
    decoder, n_lines, is_last = codecs.getincrementaldecoder(encoding)(), 0, False
    while not is_last:
        content = stream.read(_BUFFER)
        is_last = not content
        try:
            text = decoder.decode(content, is_last)
        except UnicodeDecodeError as error:
            line = n_lines + 1 + error.object[: error.start].decode(encoding, "replace").count("\n")
            odd = error.object[error.start : error.start + 1].hex().upper()
            raise ValueError(
                f"{name}, line {line}: byte 0x{odd} is not text in encoding={encoding!r}; choose another, such as "
                "latin-1, cp1252 or utf-16."
            ) from None
        except UnicodeError as error:
            raise ValueError(f"{name} is not text in encoding={encoding!r} ({error}); choose another.") from None
        n_lines += text.count("\n")
        if text:
            yield text.encode("utf-8", "surrogatepass")
