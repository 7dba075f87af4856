"""`ridgeline replay`: the figures of a run from its event log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.console import RenderableType
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import CommandError, make_console
from ridgeline.cli.grouping import option
from ridgeline.cli.remote.shared import make_console as make_output
from ridgeline.cli.remote.shared import print_json
from ridgeline.cli.running.summary import WIDEST, print_metrics, read_report, say
from ridgeline.cli.tables import drawn
from ridgeline.cli.views.path import critical_path_parts
from ridgeline.engine.files.rotation import earlier
from ridgeline.measure.answers.windows import CriticalPathAnswer, WindowAnswer
from ridgeline.measure.changes import text_of
from ridgeline.measure.wording.units import count, duration, milliseconds, plural, time_of_day
from ridgeline.observe.watch import Watch
from ridgeline.service.event_log import event_logs
from ridgeline.service.history.tail import NoRunError
from ridgeline.service.history.tail import replay as replayed
from ridgeline.service.tables import TABLES


def replay(
    file: str,
    *,
    window: Annotated[int | None, option(min=0)] = None,
    as_json: Annotated[bool, option(called="--json")] = False,
) -> None:
    """Compute a run's figures again from its log.

    From the event log that `--event-log` has written.

    Example: `ridgeline replay run.jsonl --window 42`

    Exit codes: 0 done, 1 the log is damaged, 2 there is no such log or window.

    Args:
        file: What `ridgeline run --event-log FILE` has written.
        window (N): Only the window of this id, in full.
        as_json: Print JSON: the last overview, or the window.
    """
    watch = _read(file)
    if window is not None:
        answer = _window(file, watch, window)
        if as_json:
            print_json(answer)
        else:
            _print_window(answer, watch.critical_path(window))
    elif as_json:
        print_json(watch.overview())
    else:
        _print_run(watch)


def _read(path: str) -> Watch:
    """The figures of a log. Raises CommandError."""
    if not Path(path).exists() and not earlier(Path(path)):
        raise CommandError(
            f"there is no event log `{path}`; `ridgeline run APP --event-log {path}` writes one"
        )
    if Path(path).is_dir():
        there = ", ".join(f"`{one}`" for one in event_logs(path)) or "it has none"
        raise CommandError(f"`{path}` is a folder; give one of its event logs: {there}")
    try:
        return replayed(path, make_console().print)
    except NoRunError as error:
        raise CommandError(str(error)) from None


def _window(path: str, watch: Watch, window_id: int) -> WindowAnswer:
    try:
        return watch.window(window_id)
    except KeyError as error:
        raise CommandError(f"event log `{path}`: {error.args[0]}") from None


def _print_run(watch: Watch) -> None:
    """Print a run's figures as `ridgeline run` does at its end."""
    console = make_output()
    info = watch.info()
    if "id" not in info:  # `read_run` has refused a log without a plan
        return
    reason = f": {info['reason']}" if info["reason"] else ""
    began = f", began {time_of_day(info['startTime'])}, {duration(info['elapsedTime'])}"
    say(
        console,
        Text(
            f"{info['name']} on {info['master'] or 'unknown master'}{began}; {info['state'].lower()}{reason}",
            "bold",
        ),
    )
    for change in watch.changes():
        say(console, Text(f"{time_of_day(change['since'])} {printable(text_of(change))}"))
    run = watch.summary()
    if run["last"] is None:
        say(console, Text("no window was committed"))
    print_metrics(console, run, read_report(watch, watch.now()))


def _print_window(window: WindowAnswer, path: CriticalPathAnswer) -> None:
    """Print when a window was triggered and what it had, its critical path, and its latencies."""
    console = make_output()
    width = min(console.width, WIDEST)
    attempts = f", {plural(window['attempts'], 'attempt')}" if window["attempts"] > 1 else ""
    when = f"triggered {time_of_day(window['triggeredAt'])}, {milliseconds(window['lateMs'])} late"
    tuples = f"{count(window['tuplesIn'])} tuples in, {count(window['tuplesOut'])} out"
    parts: list[RenderableType] = [
        *critical_path_parts(path, width),
        Text(),
        drawn(TABLES["latency"], window["operators"], width),
    ]
    say(console, Text(f"{when}; {tuples}{attempts}"))
    for part in parts:
        say(console, part)
