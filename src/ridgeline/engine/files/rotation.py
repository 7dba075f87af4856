"""Logs in several files: when the next one begins, how they are named, and which are removed.

`run.jsonl` is the file that is written. Those before it are `run.000001.jsonl`, `run.000002.jsonl` and so on,
in order of time.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ridgeline.api.clock import SystemClock
from ridgeline.api.support.duration import parse_duration

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?B)", re.IGNORECASE)
_NUMBER = re.compile(r"\.(\d{6,})$")
FULL_BYTES = 256 * 10**6
"""A file of so many bytes is full: it is renamed, and begins again."""
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a file is full, and how much is kept of those before it, as a whole: 0 is no limit.

    The oldest are removed.
    """

    size_bytes: int = FULL_BYTES
    keep_files: int = 0
    keep_bytes: int = 0
    keep_seconds: float = 0.0

    @classmethod
    def of(cls, keep: str) -> Rotation:
        """From a text such as `20,10GB,7d`. Raises ValueError.

        >>> Rotation.of("20,2d")
        Rotation(size_bytes=256000000, keep_files=20, keep_bytes=0, keep_seconds=172800.0)
        """
        keep_bytes, keep_seconds, keep_files = _limits(keep)
        return cls(keep_files=keep_files, keep_bytes=keep_bytes, keep_seconds=keep_seconds)


def _limits(text: str) -> tuple[int, float, int]:
    """Bytes, seconds and files of a text. Raises ValueError."""
    size, seconds, files = 0, 0.0, 0
    for part in filter(None, map(str.strip, text.split(","))):
        if found := _SIZE.fullmatch(part):
            size = round(float(found[1]) * _UNITS[found[2].upper()])
            given: float = size
        elif part.isdecimal():
            given = files = int(part)
        else:
            try:
                given = seconds = parse_duration(part)
            except ValueError:
                given = 0
        if given <= 0:
            raise ValueError(
                f"{part!r} is no limit of a log; give a size (`256MB`), a time (`1d`) or a number of files"
            )
    return size, seconds, files


def numbered(path: Path, number: int) -> Path:
    """The name of an earlier file of a log.

    >>> str(numbered(Path("run.jsonl"), 3))
    'run.000003.jsonl'
    """
    return path.with_name(f"{path.stem}.{number:06d}{path.suffix}")


def base_of(path: Path) -> Path:
    """The file that is written, of any file of a log.

    >>> str(base_of(Path("run.000003.jsonl"))), str(base_of(Path("run.jsonl")))
    ('run.jsonl', 'run.jsonl')
    """
    found = _NUMBER.search(path.stem)
    return path if found is None else path.with_name(f"{path.stem[: found.start()]}{path.suffix}")


def earlier(path: Path) -> list[Path]:
    """The files before the one that is written, in order of time. Raises OSError."""
    found: list[tuple[int, Path]] = []
    with contextlib.suppress(FileNotFoundError), os.scandir(path.parent) as entries:
        for entry in entries:
            one = path.with_name(entry.name)
            number = _NUMBER.search(one.stem)
            if number is not None and one != path and base_of(one) == path:
                found.append((int(number[1]), one))
    return [one for _, one in sorted(found)]


def put_away(path: Path) -> Path:
    """Rename the file or folder that is written; its new name. Raises OSError."""
    last = earlier(path)[-1:]
    number = int(_NUMBER.search(last[0].stem)[1]) if last else 0  # type: ignore[index]  # it has one
    target = numbered(path, number + 1)
    path.rename(target)
    return target


def remove_old(path: Path, rotation: Rotation) -> None:
    """Remove the oldest files before the one that is written. One that cannot be removed stays."""
    with contextlib.suppress(OSError):
        for one in list(_too_old(earlier(path), rotation)):
            with contextlib.suppress(OSError):
                if one.is_dir():
                    shutil.rmtree(one)
                else:
                    one.unlink()


def _too_old(files: list[Path], rotation: Rotation) -> Iterator[Path]:
    """The files beyond one of the limits, from the newest on."""
    size, oldest = 0, _CLOCK.wall() - rotation.keep_seconds
    for number, one in enumerate(reversed(files), 1):
        size += size_of(one)
        if (
            0 < rotation.keep_files < number
            or 0 < rotation.keep_bytes < size
            or (rotation.keep_seconds > 0 and one.stat().st_mtime < oldest)
        ):
            yield one


def size_of(path: Path) -> int:
    """The bytes of a file, or of the files in a folder. Raises OSError."""
    if path.is_dir():
        return sum(one.stat().st_size for one in path.iterdir())
    return path.stat().st_size
