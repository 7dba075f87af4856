"""`ridgeline doctor`: whether this machine, and the folder of a checkpoint, are fit for a run."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import FAILED
from ridgeline.cli.grouping import option
from ridgeline.cli.output import Output, write
from ridgeline.measure.wording.units import size

OK, WARNING, WRONG = "ok", "warning", "wrong"
_COLOURS = {OK: "green", WARNING: "yellow", WRONG: "bold red"}
_MIB, _GIB = 1 << 20, 1 << 30
_FEW_FILES = 4096
_SLOW_SYNC = 0.02
_SYNCS = 11
_SHM = "/dev/shm"  # noqa: S108  the mount itself


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `state`: `ok`, `warning` or `wrong`. `remedy`: "" if it is ok."""

    subject: str
    state: str
    found: str
    remedy: str = ""


def doctor(
    *, checkpoint: str | None = None, as_json: Annotated[bool, option(called="--json")] = False
) -> None:
    """Find what keeps an application from running well.

    On this machine; it says what to do. Java, libraries, cores, `/dev/shm`, limits, disks, network. What
    executors have is compared by each run as it starts.

    Example: `ridgeline doctor --checkpoint state`

    Exit codes: 0 nothing is wrong (there may be warnings), 1 something is wrong.

    Args:
        checkpoint (DIR): Folder that the run's state will be in.
        as_json: Print JSON instead of text.
    """
    found = [*_software(), *_machine(), _network()]
    if checkpoint is not None and is_local(checkpoint):
        found += _folder(local_path(checkpoint))
    if as_json:
        write(json.dumps([asdict(one) for one in found], indent=2))
    else:
        _print(found)
    if any(one.state == WRONG for one in found):
        raise typer.Exit(FAILED)


def _print(found: list[Finding]) -> None:
    """Print the findings: a line each, and what to do below those that are not ok."""
    table = Table.grid(padding=(0, 2))
    for one in found:
        table.add_row(Text(one.state, _COLOURS[one.state]), one.subject, Text(printable(one.found)))
        if one.remedy:
            table.add_row("", "", Text(printable(f"-> {one.remedy}"), "bold"))
    Output(highlight=False, emoji=False).print(table)
    counts = {state: sum(one.state == state for one in found) for state in _COLOURS}
    write(f"{counts[WRONG]} wrong, {counts[WARNING]} warnings, {counts[OK]} ok")


def _judged(subject: str, state: str, found: str, remedy: str) -> Finding:
    """A finding, with its remedy unless it is ok."""
    return Finding(subject, state, found, "" if state == OK else remedy)


def _refused(subject: str, error: Exception) -> Finding:
    """What an error of ours says is wrong, and its remedy."""
    what, _, remedy = str(error).partition("; ")
    return Finding(subject, WRONG, what, remedy)


def _software() -> Iterator[Finding]:
    """Java, Python, and the libraries that a run cannot be without."""
    from ridgeline.engine.spark.java import find_java, java_version
    from ridgeline.observe.identity import version

    try:
        find_java()
        yield Finding("Java", OK, java_version())
    except RidgelineError as error:
        yield _refused("Java", error)
    yield Finding("Python", OK, f"{sys.version.split()[0]} at {sys.executable}")
    for name in ("pyspark", "pyarrow"):
        try:
            importlib.import_module(name)
            yield Finding(name, OK, version(name))
        except ImportError as error:
            remedy = f"install it into this environment: `pip install {name}`"
            yield Finding(name, WRONG, f"it cannot be imported: {error}", remedy)


def _machine() -> Iterator[Finding]:
    """Cores, shared memory, open files, and room for what Spark writes."""
    cores = len(os.sched_getaffinity(0))
    yield _judged("cores", WARNING if cores < 2 else OK, str(cores), "give it two or more")  # noqa: PLR2004
    remedy = "mount it with 1 GiB (`docker run --shm-size=1g`): without it blocks go by copies"
    free = shutil.disk_usage(_SHM).free if Path(_SHM).is_dir() else 0
    yield _judged(_SHM, WARNING if free < 256 * _MIB else OK, f"{size(free)} free", remedy)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    few = files != resource.RLIM_INFINITY and files < _FEW_FILES
    remedy = "raise it: `ulimit -n 65536`, or `LimitNOFILE=65536` in the unit"
    yield _judged("open files", WARNING if few else OK, f"at most {files:,}", remedy)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    state = WRONG if free < 256 * _MIB else WARNING if free < 2 * _GIB else OK
    remedy = "Spark writes there: free some, or let TMPDIR name another folder"
    yield _judged("temporary folder", state, f"{size(free)} free", remedy)


def _network() -> Finding:
    """Whether this machine reaches itself by its name."""
    name = socket.gethostname()
    remedy = "let it lead to one of its addresses (/etc/hosts), or give `--conf spark.driver.host=ADDRESS`"
    try:
        with contextlib.closing(socket.create_server(("", 0))) as server:
            address = socket.gethostbyname(name), server.getsockname()[1]
            socket.create_connection(address, timeout=5).close()
    except OSError as error:
        return Finding("network", WRONG, f"`{name}` is not reached: {error.strerror or error}", remedy)
    return Finding("network", OK, f"{name} is {address[0]}")


def _folder(folder: str) -> Iterator[Finding]:
    """Whether a checkpoint's folder is ours alone, can be written, how fast it syncs, and its room."""
    with contextlib.suppress(FileNotFoundError):
        try:
            trust.check(folder, f"checkpoint folder `{folder}`", "give another `--checkpoint`")
        except RidgelineError as error:
            yield _refused("trust", error)
    nearest = next(one for one in (Path(folder).absolute(), *Path(folder).absolute().parents) if one.is_dir())
    try:
        middle = sorted(_sync_seconds(nearest) for _ in range(_SYNCS))[_SYNCS // 2]
    except OSError as error:
        yield Finding(
            "disk", WRONG, f"`{nearest}` cannot be written: {error.strerror}", "give another folder"
        )
        return
    remedy = "each commit waits for one: use a local SSD, or longer windows"
    slow = WARNING if middle > _SLOW_SYNC else OK
    yield _judged("disk", slow, f"a sync takes {1000 * middle:.1f} ms", remedy)
    total, _, free = shutil.disk_usage(nearest)
    state = WARNING if free < max(_GIB, total // 20) else OK
    remedy = "free some: a full disk stops the application"
    yield _judged("room", state, f"{size(free)} of {size(total)}", remedy)


def _sync_seconds(folder: Path) -> float:
    """The time of a write to a new file that is on the disk when it returns. Raises OSError."""
    clock = SystemClock()
    before = clock.monotonic()
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".ridgeline-doctor-") as file:
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())
        return clock.monotonic() - before
