"""Contestants as processes: started in a session of their own, which nothing outlives."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.frame import Benchmark
from benchmarks.summary import Ran

ROOT = Path(__file__).resolve().parent.parent
_TRIAL_BUDGETS = 5
"""A trial may take so many budgets: it tells whether things work, on a machine that does other work too."""


def run_contestant(
    benchmark: Benchmark, module: str, contestant: str | None, number: int, work: Path, *, quick: bool
) -> Ran:
    """Run a contestant of a benchmark (None: its `prepare`); end it after the benchmark's whole budget.

    A trial (`quick`) is ended after several budgets only.

    Its Spark and its temporary files lie in a folder of its own below `work`, removed afterwards with all
    that it started. Never raises but KeyboardInterrupt: what goes wrong is in the answer's `error`.
    """
    data, folder = work / "data" / benchmark.name, work / "round"
    data.mkdir(parents=True, exist_ok=True)
    for part in ("own", "spark"):
        (folder / part).mkdir(parents=True)
    job = {
        "module": module,
        "benchmark": benchmark.name,
        "contestant": contestant,
        "number": number,
        "quick": quick,
        "data": str(data),
        "folder": str(folder / "own"),
        "result": str(folder / "result.json"),
    }
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(folder / "spark"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    patience_seconds = benchmark.budget_seconds * (_TRIAL_BUDGETS if quick else 1)
    began = time.monotonic()
    ended = "did not end"
    try:
        with (folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.contestant", json.dumps(job)],
                cwd=folder / "own",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(patience_seconds)
                ended = f"ended by itself with exit code {code}"
            except subprocess.TimeoutExpired:
                ended = f"took longer than {patience_seconds:.0f} s"
            finally:
                end_session(process.pid)
                process.wait()
        return _answer(folder, contestant or "prepare", number, ended, time.monotonic() - began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answer(folder: Path, contestant: str, number: int, ended: str, seconds: float) -> Ran:
    notes = folder / "own" / "notes.txt"
    said = notes.read_text(encoding="utf-8") if notes.exists() else ""
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        result = {"error": ended}
    if "figures" in result:
        return Ran(contestant, number, result["figures"], notes=said, seconds=seconds)
    log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Ran(
        contestant,
        number,
        error=result["error"],
        notes="\n".join([said, *log[-12:]]).strip(),
        seconds=seconds,
    )


def end_session(session: int, patience_seconds: float = 10.0) -> None:
    """End all processes of a session: asked first, then killed.

    Spark's daemon of workers makes process groups of its own.
    """
    for number, limit in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, patience_seconds)):
        deadline = time.monotonic() + limit
        members = session_members(session)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while session_members(session):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return


def session_members(session: int) -> list[int]:
    """The processes of a session that still run. Without /proc (macOS): that of its leader, if there."""
    found = []
    if not Path("/proc/self/stat").exists():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(session, 0)
            found.append(session)
        return found
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                state, _parent, _group, own = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(own) == session and state != "Z":
                    found.append(int(folder.name))
    return found


def memory_by_kind() -> dict[str, float]:
    """Resident bytes of this process (`driver`), and of the `JVM` and Python `workers` processes below it.

    Empty without /proc. Pages that workers share with the daemon that forked them count for each.
    """
    parents: dict[int, int] = {}
    sizes: dict[int, float] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            pid, fields = int(folder.name), rest.split()
            names[pid], parents[pid] = name, int(fields[1])
            sizes[pid] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    found: dict[str, float] = {}
    for pid, size in sizes.items():
        above = pid
        while above and above != os.getpid():
            above = parents.get(above, 0)
        if above:
            kind = "driver" if pid == os.getpid() else "JVM" if names[pid] == "java" else "workers"
            found[kind] = found.get(kind, 0.0) + size
    return found
