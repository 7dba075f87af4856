"""A package's zip file, of unknown origin: all is checked before anything is read or unpacked."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import all_suffixes
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self

from ridgeline.api.errors import PackageError
from ridgeline.api.support.masking import printable

LARGEST_BYTES = 1 << 30
"""The largest package, packed and unpacked."""
LARGEST_DOCUMENT = 1 << 20
"""The largest file of a package that is read as metadata, specification or source."""
MOST_FILES = 20_000
_LARGEST_DIRECTORY = 8 << 20
_UNSUSPICIOUS_BYTES = 64 << 20
_LARGEST_RATIO = 100
_END = b"PK\x05\x06"
_LOCATOR_64 = b"PK\x06\x07"
_END_BYTES = 22
_LOCATOR_BYTES = 20
_LONGEST_COMMENT = 1 << 16
_SHOWN = 80
_FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
AGAIN = "build it again, or copy it again"
_MODULES = ("purelib", "platlib")
_UNUSED = ("headers", "scripts")


class ZippedFiles:
    """The files in a zip file, by name; folders are left out. A context manager."""

    def __init__(self, path: Path) -> None:
        """Open the file and check its directory. Raises PackageError, naming what was found."""
        self.path = path
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                self._check_end(file, size)
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            raise fault(
                self.path, f"cannot be read: {error.strerror or error}", "name a file you may read"
            ) from None
        except _FAILURES as error:
            raise fault(self.path, f"is damaged: {_short(str(error))}", AGAIN) from None
        try:
            self._members = self._checked(self._zip.infolist(), size)
        except PackageError:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The names of all files."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """A small file's bytes, such as metadata. Raises PackageError, KeyError if there is none."""
        if self._members[name].file_size > LARGEST_DOCUMENT:
            raise fault(
                self.path,
                f"has {self._members[name].file_size:,} bytes in `{_short(name)}`",
                f"files that are read may have {LARGEST_DOCUMENT:,}",
            )
        with self.opened(name) as file:
            return file.read()

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """A file to read from. What is damaged raises PackageError; KeyError if there is none."""
        try:
            with self._zip.open(self._members[name]) as file:
                yield file
        except OSError as error:
            if error.errno != errno.EINVAL:  # a place before the file's beginning
                raise
            raise fault(self.path, f"is damaged in `{_short(name)}`", AGAIN) from None
        except _FAILURES as error:
            raise fault(self.path, f"is damaged in `{_short(name)}`: {_short(str(error))}", AGAIN) from None

    def unpack(self, folder: Path, targets: Mapping[str, str]) -> None:
        """Write files into an empty folder of this user alone; `targets`: their paths in it, by name.

        Raises PackageError, OSError.
        """
        for name, target in targets.items():
            path = folder / target
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.opened(name) as source, open(path, "xb", opener=_private) as copy:
                shutil.copyfileobj(source, copy, 1 << 20)

    def _check_end(self, file: IO[bytes], size: int) -> None:
        """Refuse a file whose directory is too large to be read in a moment; zipfile reads all of it."""
        if size > LARGEST_BYTES:
            raise fault(
                self.path,
                f"has {size:,} bytes",
                f"a package may have {LARGEST_BYTES:,}: leave data out of it",
            )
        start = max(0, size - _END_BYTES - _LONGEST_COMMENT - _LOCATOR_BYTES)
        file.seek(start)
        tail = file.read()
        at = len(tail) - _END_BYTES
        if at < 0 or tail[at : at + 4] != _END or tail[-2:] != b"\0\0":
            at = tail.rfind(_END)
        if at < 0:
            raise fault(self.path, "is no zip file", "name a wheel, or a zip file with the same content")
        if tail[max(0, at - _LOCATOR_BYTES) :].startswith(_LOCATOR_64):
            raise fault(self.path, "is a zip file of the large form (ZIP64)", "leave data out of it")
        directory = int.from_bytes(tail[at + 12 : at + 16], "little")
        if directory > _LARGEST_DIRECTORY:
            raise fault(self.path, "has too many files", f"a package may have {MOST_FILES:,}")

    def _checked(self, members: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
        """The files by name. Raises PackageError for any that could do harm."""
        if len(members) > MOST_FILES:
            raise fault(self.path, f"has {len(members):,} files", f"a package may have {MOST_FILES:,}")
        found: dict[str, zipfile.ZipInfo] = {}
        folders: set[str] = set()
        for member in members:
            if what := _harm(member):
                raise fault(
                    self.path, f"{what}: `{_short(member.orig_filename)}`", "it is refused: use another one"
                )
            folders.update(str(parent) for parent in PurePosixPath(member.filename).parents)
            if member.is_dir():
                folders.add(member.filename.rstrip("/"))
            elif member.filename in found:
                raise fault(self.path, f"has the file `{_short(member.filename)}` twice", AGAIN)
            else:
                found[member.filename] = member
        if both := next((name for name in found if name in folders), None):
            raise fault(self.path, f"has `{_short(both)}` as a file and as a folder", AGAIN)
        total = sum(member.file_size for member in members)
        if total > max(_UNSUSPICIOUS_BYTES, min(LARGEST_BYTES, _LARGEST_RATIO * size)):
            what = f"has {size:,} bytes and would be unpacked to {total:,}"
            raise fault(self.path, what, "it is refused: leave data out of it")
        return found


def fault(path: Path, what: str, remedy: str) -> PackageError:
    """The error to raise for a package's file."""
    return PackageError(f"package `{path}` {what}; {remedy}")


def _harm(member: zipfile.ZipInfo) -> str:  # noqa: PLR0911  a case each
    """The fault of a member by itself, "" if it has none."""
    name = member.orig_filename
    parts = name.removesuffix("/").split("/")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "has a link or a device in the place of a file"
    if name.startswith("/") or name[1:2] == ":":
        return "has a file with an absolute path"
    if ".." in parts:
        return "has a file that would lie outside of it"
    if "\\" in name or not name.isprintable() or {"", "."} & {*parts}:
        return "has a file with a malformed name"
    if member.flag_bits & 1:
        return "has an encrypted file"
    if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        return "has a file that is neither stored nor deflated"
    return ""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _short(text: str) -> str:
    """A name or message of the package's, safe to be shown."""
    shown = printable(text).replace("`", "'")
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def unpacked_paths(files: ZippedFiles) -> dict[str, str]:
    """The path of each file by its name, all from the one folder that is put on the path.

    Scripts and headers, which only an installed package has use for, are left out. Raises PackageError.
    """
    found: dict[str, str] = {}
    for name in files.names:
        first, _, rest = name.partition("/")
        if not first.endswith(".data"):
            found[name] = name
            continue
        scheme, _, path = rest.partition("/")
        if scheme in _MODULES and path:
            found[name] = path
        elif scheme not in _UNUSED:
            raise fault(
                files.path,
                f"has `{name}`, which is for the environment of Python itself",
                "put data files beside the modules, and read them by `importlib.resources`",
            )
    if len(set(found.values())) < len(found):
        raise fault(files.path, "has two files for one place", "build it again")
    return found


def importable(paths: Iterable[str]) -> frozenset[str]:
    """The names of the modules and packages on the top level."""
    names = set()
    for path in paths:
        if any(path.endswith(suffix) for suffix in all_suffixes()):
            first = path.partition("/")[0]
            names.add(first.partition(".")[0])
    return frozenset(names)
