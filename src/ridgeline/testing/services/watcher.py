"""Ends what a process has started once that process is gone: `python watcher.py PARENT FOLDER KEEP`.

Each process that is started writes its number into a file `*.pid` of the folder. Without KEEP the folder is
removed then. A file of the standard library alone, so that it starts within milliseconds.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

_SECONDS = 0.25
"""How often it asks for the parent."""


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
    """When the process began; empty if it is gone, or a zombie. With its number, this is unique."""
    try:
        fields = _stat(pid)
        return fields[19] if fields[0] not in "ZX" else ""
    except (OSError, IndexError):
        return ""


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


def main(parent: int, folder: Path, *, keep: bool) -> None:
    """Watch until the parent is gone, then end what is left."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(one, signal.SIG_IGN)
    while os.getppid() == parent:
        time.sleep(_SECONDS)  # noqa: TID251 - a process without our clocks
    for file in folder.glob("*.pid"):
        if number := file.read_text().strip():
            kill_tree(int(number))
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), keep=len(sys.argv) > 3)  # noqa: PLR2004
