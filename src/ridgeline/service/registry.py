"""The applications of a user that run: one small file each, in a folder that no one else can read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pydantic

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.support import trust

_SUFFIX = ".json"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_REFUSAL = "the registry of applications", "set `RIDGELINE_HOME` to a folder of your own"
_OVER = {"Z", "X"}
"""States of processes that have ended, and that their parents have not noticed yet."""
_LONGEST = 100_000  # bytes of a file that may be an entry


STARTING, RUNNING, ENDED, FAILED = "starting", "running", "ended", "failed"
LIVING = frozenset({STARTING, RUNNING})
STATES = frozenset({*LIVING, ENDED, FAILED})
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """An application, as its driver says, which alone writes it: here, and in a store.

    `id`: of its checkpoint's run and epoch; empty while it starts. `name`: by which commands find it; in a
    store its author's is `application`. `url`: where its web service answers, without a slash at the end;
    empty for none. `process`: distinguishes the driver's process from a later one with the same `pid`.
    `process_space`: where `pid` counts, as containers of one host may have the same name.

    In no store are `token`, which the web service asks for, and `certificate`, the fingerprint of what it
    presents (`sha256:...`).

    `started`, `heartbeat`: seconds since 1970 by the clock of its host. `start`: how often the name was
    started, this time included. `state`: one of `STATES`, with the `reason` of an end. `final`: the
    application has ended, and YARN is not to continue it; without it only this driver has. `cluster_id`:
    Spark's id of it. `deploy_mode`: `cluster` if its cluster runs the driver.
    """

    id: str
    name: str
    url: str = ""
    token: str | None = None
    pid: int = 0
    host: str = ""
    started: float = 0.0
    user: str = ""
    checkpoint: str = ""
    process: str = ""
    certificate: str = ""
    application: str = ""
    start: int = 0
    state: str = RUNNING
    reason: str = ""
    heartbeat: float = 0.0
    master: str = ""
    deploy_mode: str = "client"
    cluster_id: str = ""
    final: bool = False
    process_space: str = ""
    format: int = FORMAT

    @property
    def run(self) -> str:
        """The run of its checkpoint; empty while it starts."""
        return self.id.rpartition("-")[0]

    @property
    def epoch(self) -> int:
        """The epoch of its checkpoint; 0 while it starts."""
        number = self.id.rpartition("-")[2]
        return int(number) if number.isdigit() else 0

    @property
    def lives(self) -> bool:
        """Whether it starts or runs, by what it says."""
        return self.state in LIVING


ENTRY = pydantic.TypeAdapter(Entry)


def own_entry(id: str, name: str, url: str = "", **said: Any) -> Entry:  # noqa: A002
    """The entry of an application that this process runs."""
    pid = os.getpid()
    return Entry(
        id,
        name,
        url,
        pid=pid,
        host=socket.gethostname(),
        process=process_identity(pid) or "",
        process_space=process_space(),
        **said,
    )


def folder() -> Path:
    """The registry's folder.

    `$RIDGELINE_HOME/applications`, else `$XDG_RUNTIME_DIR/ridgeline`, else `~/.ridgeline/applications`.
    """
    home = os.environ.get("RIDGELINE_HOME")
    if home:
        return Path(home).expanduser() / "applications"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK | os.X_OK):
        return Path(runtime) / "ridgeline"
    return Path.home() / ".ridgeline" / "applications"


def _folders() -> list[Path]:
    """Where entries of this user may be: a service of the system has no `XDG_RUNTIME_DIR`."""
    if os.environ.get("RIDGELINE_HOME"):
        return [folder()]
    return list(dict.fromkeys([folder(), Path.home() / ".ridgeline" / "applications"]))


def register(entry: Entry) -> Path:
    """Make a running application known to this user's other commands, until the file is removed; its path.

    Other commands read the folder at any time, so the file is there as a whole or not at all. Raises
    RidgelineError if it cannot be written, UntrustedError.
    """
    place = folder()
    path = place / (_UNSAFE.sub("_", entry.id).lstrip(".") + _SUFFIX)
    try:
        trust.private_folder(str(place), *_REFUSAL)
        replace_file(path, json.dumps(asdict(entry)).encode(), _owner_only)
    except OSError as error:
        raise RidgelineError(
            f"the application cannot be registered in `{place}`: {error.strerror}; set `RIDGELINE_HOME` to "
            "a folder that you may write"
        ) from error
    return path


def running() -> list[Entry]:
    """The user's applications that run, by the time at which they started.

    Files of processes of this host that are gone, and files of this user that are no entries, are removed on
    the way. Those of other hosts (a home that is shared) cannot be checked and stay. Raises UntrustedError if
    others can write to the registry.
    """
    found = []
    for path in _files():
        entry = _read(path)
        if entry is not None and _alive(entry):
            found.append(entry)
        elif entry is None or entry.host == socket.gethostname():
            remove_own(path)
    return sorted(found, key=lambda entry: (entry.started, entry.id))


def _owner_only(path: str, flags: int) -> int:
    """As `trust.private_opener`, also in a folder that is trusted: entries have tokens."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def replace_file(path: Path, data: bytes, opener: Callable[[str, int], int] = trust.private_opener) -> None:
    """Write a file in the place of the one before; no reader sees half of it. Raises OSError."""
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(hidden, "xb", opener=opener) as file:
            file.write(data)
        hidden.replace(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def _files() -> Iterator[Path]:
    """The files of the registry. Raises UntrustedError if others can write to it."""
    for place in _folders():
        with contextlib.suppress(OSError):
            trust.check_entry(str(place), *_REFUSAL)
            yield from sorted(place.glob(f"[!.]*{_SUFFIX}"))


def find(text: str = "") -> Entry:
    """The running application of that id, name or URL; without a text the only one that runs.

    A URL that is not registered is taken as it is: the application may run elsewhere.

    Raises:
        RidgelineError: If there is none, or several.
    """
    entries = running()
    if text.startswith(("http://", "https://")):
        url = text.rstrip("/")
        return next((entry for entry in entries if entry.url == url), Entry("", "", url))
    chosen = [entry for entry in entries if text in {"", entry.id}] or [
        entry for entry in entries if entry.name == text
    ]
    if len(chosen) == 1:
        return chosen[0]
    raise RidgelineError(_not_one(text, entries, chosen))


def certificate_at(url: str) -> str:
    """The fingerprint that the application at an address presents now; empty if none is registered there.

    Raises UntrustedError as `running`.
    """
    return next((entry.certificate for entry in running() if entry.url == url.rstrip("/")), "")


def process_identity(pid: int) -> str | None:
    """The identity of a process, by which it differs from earlier and later ones with the same id.

    None: it is not there, or that is not known.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        ticks = fields[19]
        if fields[0] in _OVER:
            return None
    except (OSError, IndexError):
        return _started_by_ps(pid) if not Path("/proc/self").exists() else None
    return f"{boot}:{ticks}"


def process_there(entry: Entry) -> bool | None:
    """Whether the process of an application is there; None if that is not known here, as of other hosts."""
    if entry.host != socket.gethostname() or not entry.process:
        return None
    if entry.process_space and entry.process_space != process_space():
        return None  # a container of the same name
    own = (process_identity(os.getpid()) or "").partition(":")[0]
    if not own or own != entry.process.partition(":")[0]:
        return None  # another machine of that name, or from before it was started again
    return process_identity(entry.pid) == entry.process


def process_space() -> str:
    """Where process ids of this process count; "" if that is not known."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def _started_by_ps(pid: int) -> str | None:
    """When a process was started, in words of `ps`, where there is no /proc."""
    try:
        asked = subprocess.run(  # noqa: S603
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return asked.stdout.strip() or None


def send_signal(pid: int, process: str, number: signal.Signals) -> bool:
    """Send a signal to a process of that identity; False if it is gone.

    A later process with the same id never gets it, where the system has descriptors of processes (Linux).
    Raises PermissionError.
    """
    if not process or pid <= 0:
        return False
    descriptor = -1
    try:
        with contextlib.suppress(AttributeError, NotImplementedError):
            descriptor = os.pidfd_open(pid)
        if process_identity(pid) != process:
            return False
        if descriptor < 0:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, OverflowError):
        return False
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return True


def _not_one(text: str, entries: Iterable[Entry], chosen: Iterable[Entry]) -> str:
    """The error if no application of `entries`, or several (`chosen`), are meant by `text`."""
    if not entries:
        return (
            "no application of yours is running; start one with `ridgeline run FILE`, or give the URL of one"
        )
    if chosen:
        several = ", ".join(f"`{entry.id}`" + ("" if text else f" ({entry.name})") for entry in chosen)
        what = f"several applications `{text}` are running" if text else "several applications are running"
        return f"{what}; say which by its id: {several}"
    return (
        f"no application `{text}` is running; "
        f"{did_you_mean(text, [name for entry in entries for name in (entry.name, entry.id)])}"
    )


def _read(path: Path) -> Entry | None:
    """The entry in a file; None for what is none, or another user's, which is not believed."""
    try:
        with path.open("rb") as file:
            own = os.fstat(file.fileno()).st_uid == os.getuid()
            return ENTRY.validate_json(file.read(_LONGEST), strict=True) if own else None
    except (OSError, ValueError):
        return None


def _alive(entry: Entry) -> bool:
    """False if the entry's process is known to be gone; of another host nothing is known."""
    elsewhere = entry.host != socket.gethostname() or not entry.process
    return elsewhere or process_identity(entry.pid) == entry.process


def remove_own(path: Path) -> None:
    """Remove a file of this user, if that can be."""
    with contextlib.suppress(OSError):
        if path.stat().st_uid == os.getuid():
            path.unlink()
