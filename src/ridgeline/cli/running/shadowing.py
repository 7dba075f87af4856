"""`upgrade --shadow`: the new version runs beside the old one for a while, and publishes nothing.

The application that runs records what its inputs emit and its outputs get, window by window. The new version
continues a copy of the checkpoint on these tuples, in a process of its own. The tuples that its outputs get
are compared. The version before does so, too, where its command is known: it shows whether it differs from
itself.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ridgeline.api.cells.migrations import FormerName, migrations_of
from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.support.loops import DelayHead
from ridgeline.api.support.masking import MASK
from ridgeline.cli.errors import FAILED, KILLED_BY, CommandError
from ridgeline.cli.load import module_stem
from ridgeline.cli.output import write
from ridgeline.cli.running.shadow_recording import ShadowRecording, client_of, is_running
from ridgeline.measure.wording.units import duration, plural
from ridgeline.plan.spec.imports import APP_PREFIX
from ridgeline.service import registry

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client
    from ridgeline.cli.running.shadow_options import Wanted
    from ridgeline.cli.settings import RunSettings
    from ridgeline.cli.supervising.child import Child, Signals
    from ridgeline.plan.execution import Plan
    from ridgeline.testing.shadow.beside import Compared, Progress
    from ridgeline.testing.shadow.recorded import ExactWindows

_CLOCK = SystemClock()
_POLL_SECONDS = 0.3
_SAY_SECONDS = 10.0
"""How often progress is a line, where there is no terminal."""
_COPY_SECONDS = 60.0
_FIRST_SECONDS = 60.0
"""How long the first window of the new version is waited for before the time counts all the same."""
_GONE_SECONDS = 45.0
"""How long the application may be gone, as one that is started again is, before nothing more is expected."""
_QUIET_SECONDS = 5.0
_ENDING_SECONDS = 10.0
_FASTEST_WINDOW_SECONDS = 0.02
_SPARE_SECONDS = 600.0
"""A recording whose command was killed ends so long after its time."""
_MB = 2**20
_MOST_WINDOWS, _MOST_MB = 1_000_000, 10_240
_SPARE_BYTES = 256 * _MB
"""Bytes of a disk that stay free when a checkpoint is copied to it."""
_LAST_LINES = 10
NEW, OLD = "new", "old"
_PRINTED = "printed"
"""The file in the folder of a side that gets what it prints."""


@dataclass(slots=True)
class _Side:
    """One version that runs beside. `late`: it was ended before it had seen all recorded windows."""

    folder: Path
    child: Child
    progress: Progress
    ended: int | None = None
    late: bool = False

    def look(self) -> None:
        """See how far it is, and whether it has ended."""
        from ridgeline.testing.shadow.beside import Progress

        if self.ended is None:
            self.ended = self.child.process.poll()
        self.progress = Progress.read(str(self.folder))

    def printed(self) -> list[str]:
        """The last lines that it has printed."""
        try:
            text = (self.folder / _PRINTED).read_text(errors="replace")
        except FileNotFoundError:
            return []
        return text.splitlines()[-_LAST_LINES:]


class _StoppedError(Exception):
    """Ctrl-C or SIGTERM came before both versions have started."""


@dataclass
class Shadow:
    """One comparison. `words`: of the command that starts the new version, which has this `plan`."""

    client: Client
    entry: registry.Entry
    settings: RunSettings
    wanted: Wanted
    words: Sequence[str]
    plan: Plan
    _sides: dict[str, _Side] = field(default_factory=dict)
    _no_old: str = ""
    _old_target: str = ""
    _ended_early: str = ""
    _recording: str = ""
    _first: int = 0
    _shown: float = 0.0
    _removed: int = -1

    def run(self) -> None:
        """Compare, and say what came of it.

        Raises typer.Exit if the upgrade is not to be made, CommandError or RidgelineError if nothing can be
        compared. The application that runs stays as it is.
        """
        from ridgeline.cli.supervising.child import Signals

        self._check()
        stopped, before = False, None
        with Signals() as signals, _temporary() as root:
            try:
                with ExitStack() as after:
                    recording = self._record(after, signals)
                    before = self._copy(Path(root), signals)
                    self._start(Path(root), recording, signals, after)
                    self._follow(recording, signals)
            except _StoppedError:
                stopped = True
            finally:
                self._end_line()
            if stopped or signals.count:
                self._unchanged("stopped")
                raise typer.Exit(KILLED_BY + signal.SIGINT)
            self._judge(before)

    # Before ---------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Refuse what no shadow can run of, before anything is recorded. Raises CommandError."""
        if self.plan.logical.regions:
            msg = f"`{self.entry.name}` has several regions, and `--shadow` runs one; leave it out"
            raise CommandError(msg)
        if self.settings.resume.get("from_window") is not None:
            msg = (
                "`--from-window` begins at other windows than those that run, so `--shadow` cannot compare; "
            )
            raise CommandError(msg + "leave one of them out")
        names = {one.name for one in self.plan.logical.operators if not one.outputs}
        names |= {f"{one.name}.{port}" for one in self.plan.logical.operators for port in one.inputs}
        for name in self.wanted.leave_out:
            if name not in names:
                msg = f"`--leave-out {name}`: APP has no such output; {did_you_mean(name, sorted(names))}"
                raise CommandError(msg)

    def _record(self, after: ExitStack, signals: Signals) -> ShadowRecording:
        """Begin to record; it ends with `after`. Raises RidgelineError, _StoppedError."""
        if self.client.get("/info").get("state") == "PAUSED":
            msg = f"`{self.entry.name}` is paused, so no window comes that could be compared; "
            raise CommandError(msg + f"`ridgeline resume {self.entry.name}` ends that")
        lasting = self.wanted.seconds + _SPARE_SECONDS
        free = shutil.disk_usage(self.entry.checkpoint).free
        body: dict[str, Any] = {
            "exact": True,
            "windows": min(
                _MOST_WINDOWS,
                int(lasting / max(self.plan.logical.window_seconds, _FASTEST_WINDOW_SECONDS)) + 1,
            ),
            "maxMb": max(1, min(_MOST_MB, free // 2 // _MB)),
        }
        row = self.client.post("/recordings", **body)
        deadline = _CLOCK.monotonic() + _COPY_SECONDS
        try:
            while row["state"] == "QUEUED":
                _check_stopped(signals)
                self._check_moves(deadline)
                row = self.client.get(f"/changes/{row['id']}", wait=1)
        except BaseException:
            with contextlib.suppress(RidgelineError):
                self.client.post(f"/changes/{row['id']}/withdraw")
            raise
        if row["state"] != "APPLIED":
            raise CommandError(row["reason"] or "the recording was withdrawn; ask again")
        self._recording, self._first = row["result"], row["window"]
        recording = ShadowRecording(self.entry.checkpoint, row["result"])
        after.callback(recording.forget)
        after.callback(recording.stop)
        return recording

    def _check_moves(self, deadline: float) -> None:
        """Raise RidgelineError if the application has come to no window up to a time."""
        if _CLOCK.monotonic() > deadline:
            name = self.entry.name
            msg = (
                f"`{name}` has come to no window for {duration(_COPY_SECONDS)}, so nothing can be compared; "
            )
            msg += f"`ridgeline progress {name}` shows where it stands, `ridgeline resume` ends a pause"
            raise RidgelineError(msg)

    def _copy(self, root: Path, signals: Signals) -> Any:
        """Copy the checkpoint as of the window before the first one that is recorded, or a later one.

        Returns the last window of the copy. Raises RidgelineError, _StoppedError.
        """
        from ridgeline.engine.driver.checkpoint.planning import read_last
        from ridgeline.engine.driver.checkpoint.upkeep.copying import copy
        from ridgeline.engine.files.storage import LocalStorage

        name, place = self.entry.name, self.entry.checkpoint
        deadline = _CLOCK.monotonic() + _COPY_SECONDS
        while (last := read_last(LocalStorage(place), name)) is None or last.window_id < self._first - 1:
            self._check_moves(deadline)
            _check_stopped(signals)
            _CLOCK.wait(_POLL_SECONDS)
        size = sum(one.stat().st_size for one in _files(Path(place)))
        free, copies = shutil.disk_usage(root).free, 2 if self._old_words() else 1
        if free < copies * size + _SPARE_BYTES:
            msg = (
                f"`--shadow` copies the checkpoint, {size / _MB:,.0f} MB, {copies} times to `{root.parent}`, "
            )
            msg += f"where {free / _MB:,.0f} MB are free; let `TMPDIR` be a folder with more room"
            raise CommandError(msg)
        target = str(root / NEW / "state")
        (root / NEW).mkdir(mode=0o700)
        try:
            copy(place, target, step=lambda _: _check_stopped(signals), without=("recordings",))
        except OSError as error:
            msg = f"the checkpoint could not be copied to `{target}`: {error}; let `TMPDIR` be another folder"
            raise CommandError(msg) from error
        copied = read_last(LocalStorage(target), name)
        if copied is None or copied.window_id < self._first - 1 or copied.ended:
            msg = f"`{name}` has ended: there is nothing to run beside"
            raise RidgelineError(msg)
        self._first = copied.window_id + 1
        return copied

    def _old_words(self) -> list[str]:
        """The words that run the version before; none if it cannot be, and why is kept then."""
        rows: list[dict[str, Any]] = (client_of(self.entry.checkpoint) or self.client).get(
            "/checkpoints", limit=1
        )["windows"]
        words = shlex.split(rows[0]["command"]) if rows else []
        if "--from-window" in words:
            words = words[: words.index("--from-window")]
        if words[:2] == ["ridgeline", "run"]:
            self._old_target = words[2]
        if words[:2] != ["ridgeline", "run"] or words[2] == "APP":
            self._no_old = "it was not started by `ridgeline run`"
        elif any(MASK in word for word in words):
            self._no_old = "it was given secrets, which no command shows"
        else:
            old = Path(self.entry.folders[0], words[2].partition(":")[0])
            new = Path(self.settings.written.target.partition(":")[0])
            if old.exists() and new.exists() and old.samefile(new):
                self._no_old = f"`{new}` is its file, too"
            elif old.suffix == ".py" and not old.exists():
                self._no_old = f"its file `{old}` is gone"
            else:
                return words[1:]
        return []

    def _start(self, root: Path, recording: ShadowRecording, signals: Signals, after: ExitStack) -> None:
        """Start both versions, each on a copy of its own. `after` ends them."""
        from ridgeline.cli.supervising.child import Child
        from ridgeline.engine.driver.checkpoint.upkeep.copying import copy
        from ridgeline.testing.shadow.beside import Job, Progress

        starts: dict[str, tuple[Sequence[str], str | None, dict[str, str]]] = {
            NEW: (self.words, None, self._names(recording))
        }
        if words := self._old_words():
            (root / OLD).mkdir(mode=0o700)
            state = str(root / NEW / "state")
            copy(state, str(root / OLD / "state"), step=lambda _: _check_stopped(signals))
            starts[OLD] = words, self.entry.folders[0], {}
        for name, (command, folder, names) in starts.items():
            place = root / name
            job = Job(
                str(place),
                str(place / "state"),
                self.entry.checkpoint,
                self._recording,
                str(root),
                names,
                tuple(self.wanted.leave_out),
                self.wanted.tolerance,
                self._modules() if name == NEW else {},
            )
            with (place / _PRINTED).open("wb") as printed:  # the terminal is for what this command says
                child = Child(list(command), {"shadow": job.encode()}, signals, folder, printed=printed)
            self._sides[name] = _Side(place, child, Progress())
            after.callback(_end, self._sides[name])

    def _modules(self) -> dict[str, str]:
        """The module of the new version by that of the version before, if both are files of Python."""
        files = [Path(one.partition(":")[0]) for one in (self._old_target, self.settings.written.target)]
        if any(file.suffix != ".py" for file in files):
            return {}
        old, new = map(module_stem, files)
        return {old: new, f"{APP_PREFIX}{old}": new}

    def _names(self, recording: ShadowRecording) -> dict[str, str]:
        """Names of operators in the recording by those in the new version, where they differ.

        `--rename` says them, or a `FormerName`. An operator's own name counts first. Raises CommandError for
        an input that the recording does not have.
        """
        recorded = recording.windows.operators
        found = {new: old for old, new in (self.settings.resume.get("rename") or {}).items()}
        for one in self.plan.logical.operators:
            if one.name in found or one.name in recorded:
                continue
            steps = [step for step in migrations_of(one.operator) if isinstance(step, FormerName)]
            former = [step.operator for step in reversed(steps) if step.operator in recorded]
            if former:
                found[one.name] = former[0]
            elif one.is_input and not isinstance(one.operator, DelayHead):
                msg = (
                    f"`{self.entry.name}` as it runs has no input `{one.name}`, so nothing can be fed to it; "
                )
                msg += "give `--rename OLD=NEW` if it has another name, or leave `--shadow` out"
                raise CommandError(msg)
        return found

    # While it runs --------------------------------------------------------------------------------------

    def _follow(self, recording: ShadowRecording, signals: Signals) -> None:
        """Wait until the time is over and both have seen the last window, or one of them has failed."""
        new, windows = self._sides[NEW], recording.windows
        began = started = _CLOCK.monotonic()
        gone_at: float | None = None
        counts = False
        while not signals.count:
            self._look(windows)
            now = _CLOCK.monotonic()
            if not counts and (new.progress.last is not None or now - started > _FIRST_SECONDS):
                began, counts = now, True
            gone_at = None if is_running(self.entry.checkpoint) else gone_at or now
            over = counts and now - began >= self.wanted.seconds
            gone = gone_at is not None and now - gone_at > _GONE_SECONDS
            if new.ended is not None or over or gone:
                break
            self._say(now - began if counts else 0.0, windows)
            _CLOCK.wait(_POLL_SECONDS, signals.stopped)
        if (row := windows.ended()) is not None:
            self._ended_early = row["reason"] or f"it has all {row['windows']:,} windows"
        if new.ended is None and not signals.count:
            self._catch_up(windows, signals, recording.stop())

    def _catch_up(self, windows: ExactWindows, signals: Signals, end: int | None) -> None:
        """Let both see the windows that are recorded, as long as they get on and not longer than before."""
        from ridgeline.testing.shadow.beside import STOP

        deadline = _CLOCK.monotonic() + max(_COPY_SECONDS, self.wanted.seconds)
        moved, seen = _CLOCK.monotonic(), list[int | None]()
        while not signals.count and _CLOCK.monotonic() < deadline:
            self._look(windows)
            if all(side.ended is not None for side in self._sides.values()):
                return
            now = [side.progress.last for side in self._sides.values()]
            if now != seen:
                moved, seen = _CLOCK.monotonic(), now
            done = end is not None and all(last is not None and last >= end - 1 for last in now)
            if done or _CLOCK.monotonic() - moved > _QUIET_SECONDS:
                for side in self._sides.values():
                    (side.folder / STOP).touch()  # ends it where no window is left
            self._say(self.wanted.seconds, windows)
            _CLOCK.wait(_POLL_SECONDS, signals.stopped)

    def _look(self, windows: ExactWindows) -> None:
        """See how far both are, and remove recorded windows that both have seen."""
        for side in self._sides.values():
            side.look()
        running = [side for side in self._sides.values() if side.ended is None]
        if any(side.progress.last is None for side in running):
            return
        seen = min((side.progress.last or 0 for side in running), default=-1)
        with contextlib.suppress(OSError):
            for window in windows.windows():
                if window <= max(seen, self._first - 1):
                    windows.remove(window)

    def _say(self, seconds: float, windows: ExactWindows) -> None:
        """A line on how far it is."""
        now = _CLOCK.monotonic()
        progress = self._sides[NEW].progress
        if not sys.stdout.isatty() and now - self._shown < _SAY_SECONDS:
            return
        self._shown = now
        differ = sum(len(one.windows) for one in progress.outputs.values())
        behind = sum(window > (progress.last or self._first - 1) for window in windows.windows())
        text = f"shadow: {duration(seconds)} of {duration(self.wanted.seconds)}, "
        text += (
            f"{plural(progress.windows, 'window')} compared, {behind} behind, {differ or 'none'} different"
        )
        if sys.stdout.isatty():
            sys.stdout.write(f"\r\x1b[K{text}")
            sys.stdout.flush()
        else:
            write(text)

    def _end_line(self) -> None:
        if sys.stdout.isatty() and self._shown:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()

    # After ----------------------------------------------------------------------------------------------

    def _judge(self, before: Any) -> None:
        """Say what was found. Raises typer.Exit if the upgrade is not to be made."""
        new, old = self._sides[NEW], self._sides.get(OLD)
        progress = new.progress
        if progress.error or (new.ended and not progress.over):
            at = f"after window {progress.last}" if progress.last is not None else "before its first window"
            how = "it stands still, or does not keep up" if new.late else _how_ended(new.ended)
            for line in [] if progress.error else new.printed():
                write(f"  it printed: {line}")
            self._unchanged(f"the new version failed {at}: {progress.error or how}")
            raise typer.Exit(FAILED)
        if not progress.windows:
            self._unchanged("no window was committed in that time, so nothing was compared")
            raise typer.Exit(FAILED)
        for line in self._report(progress, old):
            write(line)
        if (change := self._changed(before)) is not None:
            write(f"  {change}")
        if not is_running(self.entry.checkpoint):
            self._unchanged(f"`{self.entry.name}` has ended meanwhile")
            raise typer.Exit(FAILED)
        if self._ended_early:
            self._unchanged(f"it ended before its time, with the recording: {self._ended_early}")
            raise typer.Exit(FAILED)
        if not _differs(progress) or self.wanted.accept:
            return
        self._unchanged("there are differences (`--accept-differences` makes the upgrade all the same)")
        raise typer.Exit(FAILED)

    def _unchanged(self, why: str) -> None:
        rest = f": `{self.entry.name}` runs on" if is_running(self.entry.checkpoint) else ""
        write(f"{why}; nothing was changed{rest}")

    def _changed(self, before: Any) -> str | None:
        """A text if the application was changed while it was compared."""
        from ridgeline.engine.driver.checkpoint.planning import read_last
        from ridgeline.engine.files.storage import LocalStorage

        last = read_last(LocalStorage(self.entry.checkpoint), self.entry.name)
        if last is None or (last.edits == before.edits and last.properties == before.properties):
            return None
        return "the application was changed meanwhile (`ridgeline changes`): differences may come from that"

    def _report(self, progress: Progress, old: _Side | None) -> Iterator[str]:
        """The lines of the report."""
        span = f"windows {progress.first} to {progress.last} ({progress.windows:,})"
        yield f"shadow of `{self.entry.name}`: {span}, {plural(len(progress.outputs), 'output')}"
        own = None if old is None else old.progress
        if own is not None and (own.error or not own.over or own.last is None):
            self._no_old = f"it failed beside: {own.error or 'it was killed'}"
            own = None
        for name, found in progress.outputs.items():
            yield from _of_output(name, found, own, self._no_old)
        for name in progress.missing:
            yield f"  {name}: the new version has no such output"
        for name, rows in progress.new.items():
            yield f"  {name}: only in the new version, {plural(rows, 'row')}"
        yield from self._costs(progress, own)

    def _costs(self, progress: Progress, old: Progress | None) -> Iterator[str]:
        """How long windows took, and how much processor time, of both."""
        new = _cost(progress)
        if old is None:
            yield f"  a window took {new}; there is nothing of the version before: {self._no_old}"
            return
        yield f"  a window took {new}; with the version before {_cost(old)}"
        parts = [
            f"{name} {1000 * seconds / progress.windows:.1f} ms ("
            f"{1000 * old.operators.get(name, 0.0) / old.windows:.1f} before)"
            for name, seconds in sorted(progress.operators.items(), key=lambda one: -one[1])[:5]
        ]
        yield f"  processor time of operators, a window: {', '.join(parts)}"


def _temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder for the copies. Raises CommandError."""
    try:
        return tempfile.TemporaryDirectory(prefix="ridgeline-shadow-")
    except OSError as error:
        raise CommandError(
            f"`--shadow` cannot make a folder for its copies: {error}; let `TMPDIR` be another one"
        ) from error


def _check_stopped(signals: Signals) -> None:
    """Raise _StoppedError once Ctrl-C or SIGTERM has come."""
    if signals.count:
        raise _StoppedError


def _cost(progress: Progress) -> str:
    from ridgeline.testing.shadow.beside import percentile

    half, most = (1000 * percentile(progress.seconds, share) for share in (0.5, 0.99))
    cpu = 1000 * progress.cpu_seconds / progress.windows
    return f"{half:.1f} ms (p99 {most:.1f} ms), {cpu:.1f} ms of processor time"


def _differs(progress: Progress) -> bool:
    return bool(progress.missing) or any(one.windows for one in progress.outputs.values())


def _of_output(name: str, found: Compared, old: Progress | None, no_old: str) -> Iterator[str]:
    """The lines on one output. `old`: what the version before made of the same; None without."""
    if not found.windows:
        yield f"  {name}: {plural(found.before, 'row')}, equal"
        return
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (found.differ, "differ" if found.differ > 1 else "differs"),
            (found.only_before, "only published"),
            (found.only_after, "only by the new version"),
        )
        if number
    ]
    rows = f"{plural(found.before, 'row')} published, {found.after:,} by the new version"
    yield f"  {name}: DIFFERENT in {plural(len(found.windows), 'window')}: {rows}"
    if parts:
        yield f"    rows: {', '.join(parts)}"
    if found.columns:
        yield f"    columns: {found.columns}"
    if found.first:
        yield f"    in window {found.windows[0]}, the first one:"
        yield from (f"      {text}" for text in found.first)
    own = None if old is None else old.outputs.get(name)
    if old is None or old.last is None or own is None or found.windows[0] > old.last:
        yield f"    whether the version before repeats what it published is not known: {no_old or 'too slow'}"
    elif both := set(own.windows) & set(found.windows):
        yield f"    the version before does not repeat what it published either, in {len(both)} of these:"
        yield "      it depends on more than its inputs (time of day, chance, what it asks outside), or its"
        yield f"      files were changed since; `--leave-out {name.rpartition('.')[0]}` leaves it out"
    else:
        yield "    the version before repeats what it published: the difference is the new version's"


def _files(folder: Path) -> Iterator[Path]:
    """The files of a checkpoint but those of recordings; ones that go meanwhile are left out."""
    for one in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if one.is_file() and "recordings" not in one.relative_to(folder).parts[:1]:
                one.stat()
                yield one


def _how_ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"it was killed by {name}" + (
            ", as by a system that is out of memory" if name == "SIGKILL" else ""
        )
    return f"it ended with exit code {code}"


def _end(side: _Side) -> None:
    """End a process that still runs; it has nothing to lose."""
    process = side.child.process
    if process.poll() is None:
        side.late = True
        process.terminate()
        try:
            process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    side.ended = side.child.wait()
    side.look()
