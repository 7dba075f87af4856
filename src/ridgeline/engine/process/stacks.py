"""Stacks of a worker's threads: of this process, and of another process of this host that does not answer.

A worker that is silent may hold Python's lock in native code, so that none of its threads runs. It then still
dumps its stacks when it gets SIGUSR1. `faulthandler` writes them from the signal handler to a file in a
folder of this user. The driver on the same host reads it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO

import ridgeline
from ridgeline.api.clock import Clock
from ridgeline.api.errors import UntrustedError
from ridgeline.api.support import trust

MAXIMUM_BYTES = 8192
_KEPT_SECONDS = 3600.0
_HOME = Path(ridgeline.__file__).parent
_SPARK = importlib.util.find_spec("pyspark")  # not imported: the driver's half has no need of it
_PACKAGES = (str(_HOME), *(_SPARK.submodule_search_locations or () if _SPARK else ()))
MACHINERY = (*(f"{folder}{os.sep}" for folder in _PACKAGES), "<frozen")
LIBRARY = f"{_HOME / 'operators'}{os.sep}"
_CONTEXT_MANAGERS = contextlib.__file__
_OPEN: list[IO[str]] = []
"""The file that the signal handler writes to must stay open."""


def of_thread(thread: int) -> str:
    """The stack of a thread of this process, most recent call last, at most 8 KB: the innermost frames.

    Empty if there is no such thread.

    Frames of the engine and of Spark are left out, unless there are no others.
    """
    frame = sys._current_frames().get(thread)  # noqa: SLF001  the only way
    if frame is None:
        return ""
    frames = traceback.extract_stack(frame)
    return _innermost(
        traceback.format_list([found for found in frames if _is_users(found.filename)] or frames)
    )


def _is_users(filename: str) -> bool:
    return filename.startswith(LIBRARY) or (
        not filename.startswith(MACHINERY) and filename != _CONTEXT_MANAGERS
    )


def _innermost(lines: list[str]) -> str:
    """As many of the last texts as fit."""
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line.encode(errors="replace"))
        if size > MAXIMUM_BYTES:
            break
        kept.append(line)
    return "".join(reversed(kept)) or lines[-1][:MAXIMUM_BYTES]


def register() -> None:
    """Dump the stacks of all threads at SIGUSR1, and the stack of a thread that crashes in native code.

    Raises OSError if there is no place for the file. The stack that a process wrote as it crashed is kept for
    an hour.
    """
    home = folder()
    _tidy(home)
    if not _OPEN:  # the file of an older process of this number
        (home / str(os.getpid())).unlink(missing_ok=True)
    file = (home / str(os.getpid())).open("a", encoding="utf-8")
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True, chain=False)
    if _OPEN or not faulthandler.is_enabled():  # else it is Spark's
        faulthandler.enable(file=file, all_threads=False)
    for old in _OPEN:
        old.close()
    _OPEN[:] = [file]


def dump(pid: int, clock: Clock, *, seconds: float = 1.0) -> str | None:
    """The stacks of a worker of this user on this host; None if it cannot or does not answer in time.

    Blocks for `seconds` at most.

    Only a Python worker of Spark that has called `register` is sent the signal; any other process would die
    of it.
    """
    try:
        path = folder() / str(pid)
        if not path.is_file() or not _answers(pid):
            return None
        os.truncate(path, 0)
        os.kill(pid, signal.SIGUSR1)
        text, deadline = "", clock.monotonic() + seconds
        while clock.monotonic() < deadline:
            clock.wait(0.02)
            before, text = text, path.read_text(encoding="utf-8", errors="replace")
            if text and text == before:
                break
    except OSError:
        return None
    return text or None


def last_words(pid: int) -> str:
    """The signal and stack that a process of this user wrote in a crash, at most 8 KB; else ""."""
    try:
        with (folder() / str(pid)).open("rb") as file:
            text = file.read(MAXIMUM_BYTES).decode(errors="replace")
    except OSError:
        return ""
    return text[begin:] if (begin := text.find("Fatal Python error")) >= 0 else ""


def _tidy(home: Path) -> None:
    """Remove the files of dead processes; those of crashes stay for an hour, by the files' own times."""
    files = []
    for path in home.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another worker tidies up, too
            files.append((path, path.stat()))
    newest = max((found.st_mtime for _, found in files), default=0.0)
    for path, found in files:
        worthless = not found.st_size or found.st_mtime < newest - _KEPT_SECONDS
        if worthless and path.stem.isdigit() and not _exists(int(path.stem)):
            path.unlink(missing_ok=True)


def is_worker(pid: int) -> bool:
    """True for a Python worker of Spark on this host."""
    try:
        command = (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False
    return b"pyspark" in command or b"ridgeline.engine.spark.daemon" in command


def _answers(pid: int) -> bool:
    """True for a Python worker of Spark that catches SIGUSR1."""
    if not is_worker(pid):
        return False
    status = (Path("/proc") / str(pid) / "status").read_text()
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (signal.SIGUSR1 - 1) & 1)


def _exists(pid: int) -> bool:
    """True if there is such a process on this host."""
    with contextlib.suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def folder() -> Path:
    """The folder of this user's dumps, which no other user may write to. Raises OSError if it is not so."""
    home = Path(tempfile.gettempdir()) / f"ridgeline-stacks-{os.getuid()}"
    try:
        trust.private_folder(
            str(home), "the folder for stacks of workers", "set `TMPDIR` to a folder of your own"
        )
    except UntrustedError as error:
        raise PermissionError(str(error)) from error
    return home
