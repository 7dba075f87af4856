"""A run that is read from a bundle: each answer as it was given when the bundle was made."""

from __future__ import annotations

import json
import struct
import threading
import zipfile
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ridgeline.service.history.bundling import FORMAT, INDEX, LIVE, entry_of
from ridgeline.service.http.bodies import AnswerError, to_json

SUFFIX = ".zip"
_LARGEST = 256 * 1024 * 1024
"""The most bytes of an answer: a zip file may claim, and hold, any number."""
_LARGEST_INDEX = 16 * 1024 * 1024
_MISSING = "the bundle does not have this"
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, IndexError, NotImplementedError, OverflowError,
    RuntimeError, ValueError,
)  # fmt: skip
"""The errors of zipfile and json for what is damaged; a RecursionError is a RuntimeError."""


def index_of(path: Path) -> Mapping[str, Any] | None:
    """The index of a bundle; None for a file that is none. Raises OSError."""
    try:
        with zipfile.ZipFile(path) as bundle:
            index = json.loads(_read(bundle, INDEX, _LARGEST_INDEX))
    except (KeyError, *_DAMAGED):
        return None
    if not isinstance(index, dict) or index.get("bundle") != "ridgeline":
        return None
    return index


class BundledRun:
    """The answers of a bundle. Thread-safe. Nothing of it is unpacked to a disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bundle: zipfile.ZipFile | None = None
        self._file: tuple[int, ...] = ()
        self._lock = threading.Lock()

    def load(self) -> None:
        """Open the bundle. Raises AnswerError (409) for what is none, or of a later format."""
        try:
            self._file = _identity(self.path)
            index = index_of(self.path)
            self._bundle = None if index is None else zipfile.ZipFile(self.path)
        except _DAMAGED as error:  # another file has its place meanwhile
            raise AnswerError(409, f"`{self.path.name}` is damaged: {str(error)[:200]}") from error
        except OSError as error:
            raise AnswerError(409, f"`{self.path.name}` cannot be read: {error.strerror}") from error
        if index is None:
            raise AnswerError(
                409, f"`{self.path.name}` is no bundle", "give what `ridgeline bundle` has written"
            )
        if index.get("format") != FORMAT:
            raise AnswerError(
                409,
                f"`{self.path.name}` is of another version of bundles than this one, which is {FORMAT}",
                "open it with the version of Ridgeline that made it, or a newer one",
            )

    def share(self) -> float:
        """All of it is read."""
        return 1.0

    def is_outdated(self) -> bool:
        """Whether another bundle has its place by now. One that is gone is not outdated."""
        try:
            return _identity(self.path) != self._file
        except OSError:
            return False

    def close(self) -> None:
        """Close the file. May be called twice."""
        with self._lock:
            if self._bundle is not None:
                self._bundle.close()

    def whole(self) -> Any:
        """The state that a page gets. Raises AnswerError."""
        return self.kept(LIVE, {})

    async def events(self) -> AsyncIterator[bytes]:
        """The events for a page: the whole state, and the end."""
        yield b"event: whole\ndata: %b\n\n" % to_json(self.whole())
        yield b"event: end\ndata: {}\n\n"

    def ask(self, path: str, query: Mapping[str, Any]) -> Any:
        """The answer to a path with its query; `path` is as it was sent. Raises AnswerError."""
        known = {name: value for name, value in query.items() if value is not None}
        names = self._names()
        if entry_of(path, known) in names:
            return self.kept(path, known)
        if entry_of(path, {}) in names and (select := _SELECT.get(path)) is not None:
            return select(self.kept(path, {}), known)
        if entry_of(path, {}) in names and not {"windowId", "region"} & set(known):
            return self.kept(path, {})
        raise AnswerError(404, _MISSING, "`index.json` in it says what is missing, and why")

    def kept(self, path: str, query: Mapping[str, Any]) -> Any:
        """An answer as it is kept. Raises AnswerError."""
        decoded = "/".join(unquote(part) for part in path.split("/"))
        name = entry_of(path, query)
        with self._lock:
            if self._bundle is None or self._bundle.fp is None:
                raise AnswerError(503, "the bundle is closed", "ask again")
            try:
                return json.loads(_read(self._bundle, name, _LARGEST))
            except KeyError:
                raise AnswerError(404, f"{_MISSING}: `{decoded[:100]}`") from None
            except (OSError, *_DAMAGED) as error:
                raise AnswerError(409, f"the bundle is damaged: {str(error)[:200]}") from None

    def has(self, name: str) -> bool:
        """Whether the bundle has an entry of this name."""
        return name in self._names()

    def _names(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._bundle.namelist()) if self._bundle is not None else frozenset()


def _identity(path: Path) -> tuple[int, ...]:
    """The identity of a file and of its content, as its status has it. Raises OSError."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _read(bundle: zipfile.ZipFile, name: str, most: int) -> bytes:
    """An entry. Raises KeyError, ValueError for one that is too large, BadZipFile."""
    with bundle.open(name) as entry:
        data = entry.read(most + 1)
    if len(data) > most:
        raise ValueError(f"`{name}` has more than {most:,} bytes")
    return data


def _last(name: str) -> Callable[[Any, Mapping[str, Any]], Any]:
    """The last rows, as `limit` says."""

    def select(answer: Any, query: Mapping[str, Any]) -> Any:
        limit = query.get("limit")
        return answer if limit is None else {**answer, name: answer[name][-int(limit) :]}

    return select


def _of_operator(name: str) -> Callable[[Any, Mapping[str, Any]], Any]:
    """The rows of an operator, as `operator` says."""

    def select(answer: Any, query: Mapping[str, Any]) -> Any:
        wanted = query.get("operator")
        if wanted is None:
            return answer
        return {**answer, name: [row for row in answer[name] if row["operator"] == wanted]}

    return select


_SELECT: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "/marks": _last("marks"),
    "/decisions": _last("decisions"),
    "/windows": _last("windows"),
    "/lines": _of_operator("operators"),
    "/stacks": _of_operator("operators"),
    "/keys": _of_operator("operators"),
    "/metrics": _of_operator("metrics"),
    "/recordAge": _of_operator("operators"),
}
