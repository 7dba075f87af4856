"""Commands that are watched from outside: how long from the launch until a file is there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

APPS = Path(__file__).resolve().parent / "apps"
LONGEST_SECONDS = 60.0


def python(*arguments: str) -> list[str]:
    """A command of this interpreter."""
    return [sys.executable, *arguments]


def ridgeline_run(app: str, *arguments: str) -> list[str]:
    """`ridgeline run` of one of the applications in `apps`, as a user types it."""
    return [
        str(Path(sys.executable).with_name("ridgeline")),
        "run",
        str(APPS / app),
        "--master",
        "local[2]",
        *arguments,
    ]


def seconds_until(command: Sequence[str], there: Callable[[], bool], log: Path) -> float:
    """Launch a command; seconds until `there()`, asked every 2 ms. The command then runs to its end.

    Raises RuntimeError with what it printed if it ends before, or with a failure, or takes more than a
    minute.
    """
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        seconds = None
        while seconds is None:
            ended = process.poll() is not None
            now = time.perf_counter() - began
            if there():
                seconds = now
            elif ended or now > LONGEST_SECONDS:
                break
            else:
                time.sleep(0.002)
        try:
            code = process.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    if seconds is None or code:
        printed = log.read_text(encoding="utf-8", errors="replace").strip()
        raise RuntimeError(f"`{' '.join(command)}` ended with exit code {code}: {printed[-2000:]}")
    return seconds
