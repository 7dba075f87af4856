"""The progress of a window that takes long."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from ridgeline.cli.views.backlog import sources_table
from ridgeline.cli.views.queues import queue_parts
from ridgeline.cli.views.verdict import verdict_line
from ridgeline.measure.answers.progress import OperatorProgressAnswer, ProgressAnswer
from ridgeline.measure.wording.units import count, duration, plural, soon
from ridgeline.measure.wording.waiting import known_as

LONG_SECONDS = 2.0
_SHOWN = 4


def running_lines(progress: ProgressAnswer, *, after_seconds: float = LONG_SECONDS) -> list[Text]:
    """How far a running window is, once it takes longer than `after_seconds`; none otherwise.

    Containers that are silent are named.
    """
    lines = []
    if progress["running"] and (progress["elapsedSeconds"] or 0.0) > after_seconds:
        running = _running(progress)
        lines = [_window(progress), *(_operator(operator) for operator in running[:_SHOWN])]
        if len(running) > _SHOWN:
            lines.append(Text(f"  and {plural(len(running) - _SHOWN, 'more operator')}", "dim"))
    return [*lines, *(Text(silent, "bold red") for silent in _silent(progress))]


def running_line(progress: ProgressAnswer, *, after_seconds: float = LONG_SECONDS) -> str:
    """The same in one line, such as `window 0 runs for 26 s, 42% done, about 36 s left: slow 24 of 60`.

    Empty if the window has not run for so long.
    """
    if not progress["running"] or (progress["elapsedSeconds"] or 0.0) <= after_seconds:
        return ""
    running = _running(progress)
    does = [_done(operator).plain for operator in running[:_SHOWN]]
    if len(running) > _SHOWN:
        does.append(plural(len(running) - _SHOWN, "more operator"))
    return "; ".join([_window(progress).plain + (f": {', '.join(does)}" if does else ""), *_silent(progress)])


def progress_parts(progress: ProgressAnswer, width: int, at: float | None = None) -> list[RenderableType]:
    """All of `/progress` for people: verdict, sources, and the running window however short it is.

    `at`: STRAM's clock, if known.
    """
    parts: list[RenderableType] = [verdict_line(progress, at)]
    sources = sources_table(progress, width, at)
    if sources is not None:
        parts.append(sources)
    parts += queue_parts(progress, width, at)
    running = running_lines(progress, after_seconds=0.0)
    idle = Text(
        "no window runs now"
        + ("" if progress["windowId"] is None else f"; the last one was {count(progress['windowId'])}"),
        "dim",
    )
    return [*parts, *(running if progress["running"] else [*running, idle])]


def left_text(seconds: float | None, basis: str) -> str:
    """`about 40 s left`; empty if unknown."""
    return "" if seconds is None else f"{known_as(basis)}{soon(seconds)} left"


def _window(progress: ProgressAnswer) -> Text:
    """`window 0 runs for 26 s, 42% done, about 36 s left`."""
    elapsed, window = progress["elapsedSeconds"] or 0.0, progress["window"]
    runs = duration(elapsed) if elapsed <= LONG_SECONDS else soon(elapsed)
    line = Text.assemble(("window ", "dim"), (count(progress["windowId"]), "bold"), f" runs for {runs}")
    if window["fractionDone"] is not None:
        line.append(f", {window['fractionDone']:.0%} done")
    left = left_text(window["remainingSeconds"], window["basis"])
    return line.append(f", {left}") if left else line


def _running(progress: ProgressAnswer) -> list[OperatorProgressAnswer]:
    return [operator for operator in progress["operators"] if operator["state"] == "running"]


def _silent(progress: ProgressAnswer) -> list[str]:
    """`container 3 is silent for 31.0 s`, for each one."""
    silent = [
        (container["id"], container["lastHeartbeatAgeSeconds"])
        for container in progress["containers"]
        if container["silent"]
    ]
    return [
        f"container {number} is silent{'' if age is None else f' for {duration(age)}'}"
        for number, age in silent
    ]


def _operator(operator: OperatorProgressAnswer) -> Text:
    """`summing 20 of 60, about 40 s left`."""
    line = Text("  ").append_text(_done(operator))
    left = left_text(operator["remainingSeconds"]["value"], operator["remainingSeconds"]["basis"])
    return line.append(f", {left}") if left else line


def _done(operator: OperatorProgressAnswer) -> Text:
    """`summing 20 of 60`."""
    line = Text.assemble((operator["operator"], "bold"))
    consumed, remaining = operator["consumed"], operator["inputRemaining"]
    if consumed is not None:
        line.append(f" {count(consumed)}")
        if remaining["value"] is not None:
            line.append(
                " of "
                f"{known_as(remaining['basis'])}{count(consumed + operator['active'] + remaining['value'])}"
            )
    return line
