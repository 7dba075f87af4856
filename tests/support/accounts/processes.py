"""What is left of a session of processes: states, and Python stacks of those that answer."""

import contextlib
import os
import re
import signal
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ridgeline.api.clock import SystemClock
from ridgeline.engine.process import stacks

WIDTH = 160
_STARTUP = Path(__file__).with_name("startup")
_NAME = "TEST_STACKS"
_FILE = Path(tempfile.gettempdir(), f"ridgeline-test-stacks-{os.getpid()}")
_ANSWER_SECONDS = 3.0
FRAMES = 6
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def with_stacks(environment):
    """The environment of a process that writes its Python stacks when `stacks_of` asks for them."""
    path = os.pathsep.join(filter(None, [str(_STARTUP), environment.get("PYTHONPATH")]))
    return {**environment, "PYTHONPATH": path, _NAME: str(_FILE)}


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    session: int
    state: str
    cpu_seconds: float

    def __str__(self):
        words = _read(f"/proc/{self.pid}/cmdline").split("\0")
        named = [word.rpartition("/")[2] for word in words if not word.startswith(("-X", "-D", "-cp"))]
        where = _read(f"/proc/{self.pid}/wchan")
        text = f"{self.pid} (of {self.parent}) {self.state} {where} {self.cpu_seconds:.1f} s of CPU: "
        return (text + " ".join(named))[:WIDTH]


def processes():
    """All processes that are there, zombies too."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                yield Process(int(entry.name), int(fields[1]), int(fields[3]), fields[0], cpu)


def descendants(pid):
    """The processes that a process has started, and those that they have started, in this order."""
    found, there = [pid], list(processes())
    for parent in found:
        found += [one.pid for one in there if one.parent == parent]
    return [one for one in there if one.pid in found[1:]]


def account(members):
    """Lines on processes, each followed by its stacks if it is Python and answers: a line a thread."""
    for one in members:
        yield str(one)
        if one.state not in "ZTX":
            yield from (f"    {line}"[:WIDTH] for line in _threads(stacks_of(one.pid)))


def stacks_of(pid):
    """The stacks of the threads of a Python process as `faulthandler` writes them; else empty."""
    if not _target(f"/proc/{pid}/exe").startswith("python"):
        return ""
    if f"{_NAME}={_FILE}" not in _read(f"/proc/{pid}/environ").split("\0"):
        return stacks.dump(pid, SystemClock(), seconds=_ANSWER_SECONDS) or ""
    if not _FILE.exists():  # a process on a host of a test has a `/tmp` of its own
        return ""
    before = _FILE.stat().st_size
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR2)
    text, deadline = "", time.monotonic() + _ANSWER_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.1)
        last, text = text, _FILE.read_bytes()[before:].decode(errors="replace")
        if text and text == last:
            break
    return text


def _threads(text):
    """One line a thread: its innermost frames."""
    for thread in re.split(r"^(?:Current t|T)hread .*$", text, flags=re.MULTILINE)[1:]:
        frames = filter(None, map(_FRAME.fullmatch, thread.splitlines()))
        yield " < ".join(short(frame[1], frame[2], frame[3]) for frame in islice(frames, FRAMES))


def short(file, line, name):
    """A frame of a stack in a few words."""
    return f"{'/'.join(Path(file).parts[-2:])}:{line} {name}"


def _read(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _target(path):
    try:
        return os.path.basename(os.readlink(path))  # noqa: PTH115, PTH119  a name that need not be there
    except OSError:
        return ""
