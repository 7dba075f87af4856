"""Ends what a process has started once that process is gone: `python watcher.py PARENT`.

It reads lines from its input: `+ PID` when a process was started, `- PID` when it has ended. Lines with the
path of a folder are such, too. At the end of the input, or when the parent is gone, it kills each process
that is left, with its descendants. Then it removes the folders that are left. A file of the standard library
alone, so that it starts within milliseconds.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
from pathlib import Path

_SECONDS = 0.25
"""How often it asks for the parent. A fork of the parent keeps the input open."""


def _stat(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` after the name of the process: state, parent, ... Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, parents first; empty on systems without `/proc`.

    A server's children may have sessions and groups of their own, as those of PostgreSQL.
    """
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            number = int(folder.name)
            children.setdefault(int(_stat(number)[1]), []).append(number)
    found = list(children.get(pid, ()))
    for child in found:  # grows meanwhile
        found += children.get(child, ())
    return found


def born(pid: int) -> str:
    """When the process began; empty if it is gone or there is no `/proc`. With its number, this is unique."""
    try:
        return _stat(pid)[19]
    except (OSError, IndexError):
        return ""


def lives(pid: int, birth: str) -> bool:
    """Whether the process that began then runs: not once it is a zombie, which holds nothing."""
    with contextlib.suppress(OSError, IndexError):
        fields = _stat(pid)
        return bool(birth) and fields[19] == birth and fields[0] not in "ZX"
    return False


def signal_tree(pid: int, number: signal.Signals) -> None:
    """Send a signal to the group that `pid` leads and to its descendants, if they are there."""
    below = descendants(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
    for process in below:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def kill_tree(pid: int) -> None:
    """Kill the group that `pid` leads, and all its descendants, also those that are born meanwhile."""
    signal_tree(pid, signal.SIGSTOP)
    signal_tree(pid, signal.SIGKILL)


def _watch(parent: int) -> dict[str, None]:
    """The processes and folders that are left when the parent is gone."""
    left: dict[str, None] = {}
    rest = b""
    while True:
        is_there = os.getppid() == parent  # asked first: what a parent that is gone has written is all there
        if not select.select([0], [], [], _SECONDS if is_there else 0)[0]:
            if is_there:
                continue
            return left
        read = os.read(0, 1 << 16)
        if not read:
            return left
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            sign, what = os.fsdecode(line).split(" ", 1)
            if sign == "+":
                left[what] = None
            else:
                left.pop(what, None)


def main() -> None:
    """Watch until the parent is gone, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    left = _watch(int(sys.argv[1]))
    for pid in filter(str.isdigit, left):
        kill_tree(int(pid))
    for folder in filter(os.path.isabs, left):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
