"""The entries of a store: small files of JSON that all read, and each written by its application alone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.fs

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError, UntrustedError
from ridgeline.api.support import trust
from ridgeline.api.support.files import is_local, local_path, resolve, s3_settings, use_s3
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.engine.spark.s3 import s3_settings_of, s3a_from_environment
from ridgeline.service.registry import ENTRY, FORMAT, STATES, Entry, replace_file

LONGEST = 100_000
"""Bytes of a file that may be an entry."""
_NOT_STORED = ("token", "certificate")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def check_name(name: str) -> str:
    """The name, if an application can have it in a store. Raises RidgelineError."""
    if not _NAME.fullmatch(name):
        raise RidgelineError(
            f"`{name}` cannot be the name of an application in a store: it has letters, digits and `._-`, "
            "200 at most, and begins with a letter or digit; give another name"
        )
    return name


def is_name(text: str) -> bool:
    """Whether an application can have this name."""
    return _NAME.fullmatch(text) is not None


def encoded(entry: Entry) -> bytes:
    """The file of an entry, without what is for this machine alone."""
    said = {name: value for name, value in asdict(entry).items() if name not in _NOT_STORED}
    return json.dumps(said, indent=1).encode()


def decoded(name: str, data: bytes) -> Entry:
    """The entry in a file. Fields of later versions are left out. Raises ValueError for what is none."""
    found = ENTRY.validate_json(data, strict=True)
    if found.name != name or found.state not in STATES or found.start < 0:
        raise ValueError("it is an entry of another name, or has values that no entry has")
    if found.format > FORMAT:
        raise ValueError(f"it has format {found.format}, and this version reads {FORMAT}")
    return found


PLACE = ".ridgeline/applications"
_SUFFIX = ".json"
_AT_ONCE = 16
_LOOKS, _LOOK_SECONDS = 20, 0.05
_FOLDERS_NEEDED = frozenset({"hdfs", "local", "abfs"})
_REMEDY = "give another `--store`, or name its owner in `RIDGELINE_TRUST`"


@dataclass(frozen=True, slots=True)
class Found:
    """A file of the store. `written`: when, by the store's clock, seconds since 1970.

    `fault`: why there is no `entry`: it is damaged, or others could have written it (`trusted` False).
    """

    name: str
    written: float
    entry: Entry | None = None
    fault: str = ""
    trusted: bool = True


class EntryFolder:
    """The entries of a store, a folder or URI. All methods block. They raise RidgelineError naming the store.

    Of a local folder only those files count that no other user could have written: commands send tokens to
    the addresses in them. Who may write to an object store is trusted.
    """

    def __init__(self, store: str, clock: Clock | None = None) -> None:
        self.is_local = is_local(store)
        self.uri = local_path(store) if self.is_local else store.rstrip("/")
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._made: set[str] = set()
        self._resolved: tuple[pyarrow.fs.FileSystem, str] | None = None

    def checkpoint(self, name: str) -> str:
        """The folder for the checkpoint of an application."""
        return f"{self.uri}/{check_name(name)}"

    def entries(self) -> list[Found]:
        """All entries of the store, by name; damaged ones, too."""
        with self._explained("read"):
            if self.is_local:
                return [found for name in self._local_names() if (found := self._read_local(name))]
            filesystem, base = self._reached()
            selector = pyarrow.fs.FileSelector(f"{base}/{PLACE}", allow_not_found=True)
            files = [info for info in filesystem.get_file_info(selector) if info.is_file]
            infos = {name: info for info in files if (name := _name_of(info.base_name))}
            names = {*infos, *(name for info in files if (name := _replaced(info.base_name)))}

            def read(name: str) -> Found | None:
                found = self._read_remote(name, infos[name]) if name in infos else None
                return found or self._remote(name)

            with ThreadPoolExecutor(_AT_ONCE, "ridgeline-entries") as threads:
                return list(filter(None, threads.map(read, sorted(names))))

    def read(self, name: str) -> Found | None:
        """The entry of a name; None if there is none."""
        check_name(name)
        with self._explained("read"):
            if self.is_local:
                return self._read_local(name)
            return self._remote(name)

    def write(self, entry: Entry) -> None:
        """Write an entry in the place of the one before; no reader sees half of it."""
        with self._explained("written"):
            place = f"{PLACE}/{check_name(entry.name)}{_SUFFIX}"
            if not self.is_local:
                self._replace_remote(place, encoded(entry))
                return
            path = Path(self.uri, place)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, encoded(entry))

    def now(self) -> float:
        """The time by the store's clock, or by this machine's where this user may write no file there."""
        name = f".ridgeline/.clock-{uuid.uuid4().hex}"
        try:
            if self.is_local:
                path = Path(self.uri, name)
                with open(path, "xb", opener=trust.private_opener) as file:
                    written = os.fstat(file.fileno()).st_mtime
                path.unlink()
                return written
            filesystem, base = self._reached()
            with filesystem.open_output_stream(f"{base}/{name}") as stream:
                stream.write(b".")
            info = filesystem.get_file_info(f"{base}/{name}")
            filesystem.delete_file(f"{base}/{name}")
            return float(info.mtime.timestamp()) if info.mtime is not None else self._clock.wall()
        except (OSError, pyarrow.ArrowException):
            return self._clock.wall()

    # Local folders ------------------------------------------------------------------------------------------

    def _local_names(self) -> list[str]:
        if not Path(self.uri).is_dir():
            raise RidgelineError(
                f"there is no folder `{self.uri}`; give the `--store` that applications were started with"
            )
        try:
            return sorted(filter(None, map(_name_of, os.listdir(f"{self.uri}/{PLACE}"))))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def _read_local(self, name: str) -> Found | None:
        """The entry of a name, if no other user could have written it."""
        path = Path(self.uri, PLACE, f"{name}{_SUFFIX}")
        written = 0.0
        try:
            written = path.stat().st_mtime
            trust.check(str(path), f"the entry of `{name}`", _REMEDY)
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                trust.check_found(found, str(path), f"the entry of `{name}`", _REMEDY)
                return _decoded(name, found.st_mtime, file.read(LONGEST))
        except FileNotFoundError:
            return None
        except UntrustedError as error:
            return Found(name, written, fault=printable(str(error)), trusted=False)
        except PermissionError:
            return Found(name, written, fault="this user may not read it", trusted=False)
        except OSError as error:
            return Found(name, written, fault=f"it cannot be read: {error.strerror or error}")

    # Others -------------------------------------------------------------------------------------------------

    def _reached(self) -> tuple[pyarrow.fs.FileSystem, str]:
        with self._lock:
            if self._resolved is None:
                if not s3_settings():  # a command, without a Spark that has them
                    use_s3(s3_settings_of(s3a_from_environment()))
                self._resolved = resolve(self.uri)
            return self._resolved

    def _remote(self, name: str) -> Found | None:
        """The entry of a name; None if there is none.

        HDFS replaces no file in one step: while the new one lies beside the place, it is waited for a second.
        """
        filesystem, base = self._reached()
        for _ in range(_LOOKS):
            found = self._look(name)
            if found is not None or filesystem.type_name.removeprefix("py::") not in _FOLDERS_NEEDED:
                return found
            beside = filesystem.get_file_info(
                pyarrow.fs.FileSelector(f"{base}/{PLACE}", allow_not_found=True)
            )
            if not any(_replaced(info.base_name) == name for info in beside):
                return self._look(name)  # it may be there since
            self._clock.wait(_LOOK_SECONDS)
        return None

    def _look(self, name: str) -> Found | None:
        filesystem, base = self._reached()
        info = filesystem.get_file_info(f"{base}/{PLACE}/{name}{_SUFFIX}")
        return self._read_remote(name, info) if info.is_file else None

    def _read_remote(self, name: str, info: pyarrow.fs.FileInfo) -> Found | None:
        written = info.mtime.timestamp() if info.mtime is not None else 0.0
        try:
            with self._reached()[0].open_input_stream(info.path) as stream:
                return _decoded(name, written, bytes(stream.read(LONGEST)))
        except FileNotFoundError:
            return None
        except PermissionError:
            return Found(name, written, fault="this user may not read it", trusted=False)

    def _replace_remote(self, place: str, data: bytes) -> None:
        """Write a file; where writing is no single step, under another name first."""
        filesystem, base = self._reached()
        path = f"{base}/{place}"
        if filesystem.type_name.removeprefix("py::") not in _FOLDERS_NEEDED:
            with filesystem.open_output_stream(path) as stream:
                stream.write(data)
            return
        folder = path.rpartition("/")[0]
        if folder not in self._made:
            filesystem.create_dir(folder, recursive=True)
            self._made.add(folder)
        hidden = f"{folder}/.{path.rpartition('/')[2]}.{uuid.uuid4().hex}"
        with filesystem.open_output_stream(hidden) as stream:
            stream.write(data)
        filesystem.move(hidden, path)

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Raise RidgelineError in the place of errors of the store."""
        try:
            yield
        except UntrustedError:
            raise
        except (OSError, pyarrow.ArrowException) as error:
            reason = mask_text(printable(str(getattr(error, "strerror", None) or error)))
            store = mask_text(self.uri)
            raise RidgelineError(
                f"the store `{store}` cannot be {what}: {reason}; see that it is there and `--store` is right"
            ) from error


def _name_of(file: str) -> str:
    """The name in a file's name; "" if it is no entry's."""
    name = file.removesuffix(_SUFFIX)
    return name if file.endswith(_SUFFIX) and is_name(name) else ""


def _replaced(file: str) -> str:
    """The name whose entry a hidden file is about to replace; "" for other files."""
    return _name_of(file[1:].rpartition(".")[0]) if file.startswith(".") else ""


def _decoded(name: str, written: float, data: bytes) -> Found:
    try:
        return Found(name, written, decoded(name, data))
    except ValueError as error:
        said = printable(str(error).splitlines()[0])[:200]
        return Found(name, written, fault=f"the entry is damaged: {said}")
