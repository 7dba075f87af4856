"""Judges the facts of a host: what is wrong, and what to do."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local, local_path
from ridgeline.cli.doctor.probing import Facts, prober
from ridgeline.cli.views.backlog import size

OK, WARNING, WRONG = "ok", "warning", "wrong"
_MIB, _GIB = 1 << 20, 1 << 30
_NOT_ON_A_DISK = frozenset({"tmpfs", "ramfs"})
_FEW_FILES, _FEW_PROCESSES = 4096, 1024
_SLOW_SYNC = 0.02
_SHM = "/dev/shm"  # noqa: S108  the mount itself


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `state`: `ok`, `warning` or `wrong`. `remedy`: "" if it is ok."""

    subject: str
    state: str
    found: str
    remedy: str = ""
    host: str = ""


def examine(checkpoint: str | None, ports: str) -> Iterator[Finding]:
    """Look at this machine. `ports`: a range, as `spark.ridgeline.slots.ports` has it, or ""."""
    yield _java()
    yield from _versions()
    folder = local_path(checkpoint) if checkpoint is not None and is_local(checkpoint) else None
    nearest = _nearest(folder) if folder is not None else None
    [facts] = prober(nearest)(0, ())
    yield from judge(facts, folder)
    yield from _network(ports)


def _nearest(folder: str) -> str:
    """The folder, or the one above it that is there."""
    path = Path(folder)
    return str(next((one for one in (path, *path.parents) if one.is_dir()), path))


def _java() -> Finding:
    from ridgeline.engine.spark.java import find_java, java_version

    try:
        find_java()
    except RidgelineError as error:
        what, _, remedy = str(error).partition("; ")
        return Finding("Java", WRONG, what, remedy)
    return Finding("Java", OK, java_version())


def _versions() -> Iterator[Finding]:
    """Python and the libraries that a run cannot be without."""
    from ridgeline.observe.identity import version

    yield Finding("Python", OK, f"{sys.version.split()[0]} at {sys.executable}")
    for name, needs in (("pyspark", "Spark"), ("pyarrow", "Arrow")):
        try:
            __import__(name)
        except ImportError as error:
            remedy = f"install it into this environment: `pip install {name}`"
            yield Finding(needs, WRONG, f"`{name}` cannot be imported: {error}", remedy)
        else:
            yield Finding(needs, OK, f"{name} {version(name)}")


def judge(facts: Facts, folder: str | None, host: str = "") -> Iterator[Finding]:
    """The findings of a host's facts. `folder`: of the checkpoint. `host`: its name, of another one."""

    def finding(subject: str, wrong: str, found: str, remedy: str) -> Finding:
        return Finding(subject, wrong or OK, found, remedy if wrong else "", host)

    cores, memory = facts["cores"], facts["memory"]
    remedy = "Spark keeps one core for itself: give it two or more"
    yield finding("cores", WARNING if cores < 2 else "", f"{cores}", remedy)  # noqa: PLR2004
    if memory is not None:
        remedy = "a driver and its workers need 1 to 2 GiB: end other programs, or use a larger machine"
        yield finding("memory", WARNING if memory < 2 * _GIB else "", f"{size(memory)} available", remedy)
    shm = facts["shm"]
    remedy = (
        "blocks between processes go by copies without it: mount it with 1 GiB (`docker run --shm-size=1g`)"
    )
    if shm is None:
        yield finding(_SHM, WARNING, "it is not there", remedy)
    else:
        small = shm[1] < 256 * _MIB
        yield finding(_SHM, WARNING if small else "", f"{size(shm[1])} free of {size(shm[0])}", remedy)
    yield from _limits(facts, host)
    kept = facts["clock_kept"]
    remedy = "let chronyd, ntpd or systemd-timesyncd keep it: ages of records and timers go by it"
    found = {True: "kept by the kernel", False: "the kernel says that nothing keeps it", None: "not known"}
    yield finding("clock", WARNING if kept is False else "", found[kept], remedy)
    temporary = facts["temporary"]
    if temporary is not None:
        remedy = "Spark writes there: free some, or let TMPDIR name another folder"
        free = temporary[1]
        wrong = WRONG if free < 256 * _MIB else WARNING if free < 2 * _GIB else ""
        yield finding("temporary folder", wrong, f"{size(free)} free", remedy)
    if folder is not None and facts["folder"] is not None:
        yield from _disk(facts["folder"], folder, host)


def _limits(facts: Facts, host: str) -> Iterator[Finding]:
    """The limits of open files and of processes."""
    rows = (
        ("open files", facts["files"], _FEW_FILES, "`ulimit -n 65536`, or `LimitNOFILE=65536` in the unit"),
        ("processes", facts["processes"], _FEW_PROCESSES, "`ulimit -u 8192`, or `TasksMax=` in the unit"),
    )
    for subject, limit, least, remedy in rows:
        unlimited = limit in (-1, resource.RLIM_INFINITY)
        few = not unlimited and limit < least
        found = "no limit" if unlimited else f"at most {limit:,}"
        yield Finding(subject, WARNING if few else OK, found, f"raise it: {remedy}" if few else "", host)


def _disk(disk: Mapping[str, object], folder: str, host: str) -> Iterator[Finding]:
    """The disk of the checkpoint: whether it can be written, how fast it syncs, and its room."""
    fault, times, space, kind = (disk[name] for name in ("fault", "syncs", "space", "kind"))
    subject = f"disk of {folder}"
    if fault:
        remedy = "all hosts must see it and may write it: give a folder that they share, or a URI"
        yield Finding(subject, WRONG, str(fault), remedy, host)
        return
    assert isinstance(times, list)  # noqa: S101  as `prober` has it
    ordered = sorted(times)
    middle, slowest = ordered[len(ordered) // 2], ordered[-1]
    slow = middle > _SLOW_SYNC
    found = f"{kind or 'unknown'}, a sync takes {1000 * middle:.1f} ms, at most {1000 * slowest:.1f} ms"
    remedy = "each commit waits for one: use a local SSD, or longer windows"
    yield Finding(subject, WARNING if slow else OK, found, remedy if slow else "", host)
    if kind in _NOT_ON_A_DISK:
        remedy = "give `--checkpoint` a folder on a disk"
        yield Finding(subject, WARNING, f"{kind} is memory: it is gone after a restart", remedy, host)
    if isinstance(space, tuple | list):
        total, free = space
        few = free < max(_GIB, total // 20)
        remedy = "free some: a full disk stops the application" if few else ""
        yield Finding(
            f"room of {folder}", WARNING if few else OK, f"{size(free)} of {size(total)}", remedy, host
        )


def _network(ports: str) -> Iterator[Finding]:
    """Whether this machine reaches itself by its name, and whether the ports of slots are free."""
    name = socket.gethostname()
    remedy = (
        "let its name lead to one of its addresses (/etc/hosts), or give `--conf spark.driver.host=ADDRESS`"
    )
    try:
        address = socket.gethostbyname(name)
        with closing(socket.create_server(("", 0))) as server:
            socket.create_connection((address, server.getsockname()[1]), timeout=5).close()
    except OSError as error:
        yield Finding(
            "network", WRONG, f"`{name}` is not reached by its name: {error.strerror or error}", remedy
        )
    else:
        yield Finding("network", OK, f"{name} is {address}")
    if ports:
        yield _ports(ports)


def _ports(ports: str) -> Finding:
    """Whether the ports of slots are free. Raises ValueError for no range."""
    first, _, last = ports.partition("-")
    wanted = range(int(first), int(last or first) + 1)
    taken = []
    for port in wanted:
        try:
            socket.create_server(("", port)).close()
        except OSError:
            taken.append(port)
    found = f"{len(wanted) - len(taken)} of {len(wanted)} free"
    if len(taken) < len(wanted):
        return Finding("ports", OK, found)
    remedy = "free some, or give another range in `spark.ridgeline.slots.ports`"
    return Finding("ports", WRONG, found, remedy)


def trusted(checkpoint: str) -> Finding | None:
    """A finding if others could write what is run as code in a checkpoint; None if all is well."""
    from ridgeline.api.support import trust

    if not is_local(checkpoint) or not os.path.exists(local_path(checkpoint)):  # noqa: PTH110
        return None
    try:
        trust.check(
            local_path(checkpoint), f"checkpoint folder `{checkpoint}`", "give another `--checkpoint`"
        )
    except RidgelineError as error:
        what, _, remedy = str(error).partition("; ")
        return Finding("trust", WRONG, what, remedy)
    return None
