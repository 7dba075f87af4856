"""Copies copies of a checkpoint, each time in a process that is killed one file operation later.

`python -m support.crash.killed_upkeep FIRST OUT`: `OUT/001/state` is a copy of FIRST after a
kill before the first operation, and so on; the last one was not killed. Operations: each that opens a file to
write it, renames, removes, links, makes folders, and syncs.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from ridgeline.engine.driver.checkpoint.upkeep.copying import copy

_CHANGES = {"os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.truncate"}
_MOST = 500


def kill_at(number: int, root: str) -> None:
    """Kill this process before its `number`-th operation on files below `root`."""
    left = number

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            written = (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if isinstance(arguments[0], str) and arguments[0].startswith(root) and written:
                count()
        elif event in _CHANGES:
            count()

    def counted(real: Any) -> Any:
        def call(*arguments: Any) -> Any:
            count()
            return real(*arguments)

        return call

    for name in ("fsync", "fdatasync"):
        setattr(os, name, counted(getattr(os, name)))
    sys.addaudithook(hook)


def main(first: str, out: str) -> int:
    """Kill it at every operation; returns 0 once it was not killed any more."""
    for number in range(1, _MOST):
        folder = Path(out) / f"{number:03d}"
        shutil.copytree(first, folder / "state")
        child = os.fork()
        if child == 0:
            try:
                kill_at(number, str(folder))
                copy(str(folder / "state"), str(folder / "there"))
                os._exit(0)
            except BaseException:  # noqa: BLE001  of a process of its own
                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
    return 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
