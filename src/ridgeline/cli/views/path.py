"""The critical path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from rich.console import RenderableType
from rich.text import Text

from ridgeline.cli.tables import flow
from ridgeline.cli.views.lists import SMALL, blame_table
from ridgeline.measure.answers.windows import CriticalPathAnswer
from ridgeline.measure.wording.times import STEPS, beside_path
from ridgeline.measure.wording.units import about, count, milliseconds

_LONG = 12
_KEPT = 8
_SHOWN_SLACK = 5
_CUT, _FEWEST = 60, 3
Piece = TypeVar("Piece", str, Text)


def path_text(path: CriticalPathAnswer, width: int) -> Text:
    """The path with its latencies, in as many lines as it needs; empty before the first window.

    For example `ticks 3 ms > quote 41 ms > console 2 ms = 46 ms of 97 ms window`.
    """
    steps = path["path"]
    if not steps:
        return Text()
    slowest = max(range(len(steps)), key=lambda step: steps[step]["latencyMs"] or 0.0)
    pieces = []
    for number, step in enumerate(steps):
        title = (step["operator"], "bold red" if number == slowest else "bold")
        took = about(milliseconds(step["latencyMs"]), step.get("estimated"))
        pieces.append(Text.assemble(("> " if number else "", "dim"), title, f" {took}"))
    pieces = _cut(pieces, [step["latencyMs"] or 0.0 for step in steps])
    whole = Text.assemble(("= ", "dim"), (milliseconds(path["latencyMs"]), "bold"))
    if path.get("windowLatencyMs") is not None:
        several = len(path.get("windows", ())) > 1
        what = "from the first trigger to the last commit" if several else "window"
        whole.append(f" of {milliseconds(path['windowLatencyMs'])} {what}")
    return flow([Text("critical path", "dim"), *pieces, whole], width, indent=2)


def rest_text(path: CriticalPathAnswer, width: int) -> Text:
    """What the window waited for beside its operators, the biggest part first; empty without any."""
    rest = beside_path(path["blame"])
    least = SMALL * (path.get("windowLatencyMs") or 0.0)
    found = sorted((part for part in rest.items() if part[1] >= least), key=lambda part: -part[1])
    texts = [f"{STEPS.get(what, what)} {milliseconds(ms)}" for what, ms in found]
    small = [ms for ms in rest.values() if ms < least]
    if small:
        texts.append(f"{len(small)} more {milliseconds(sum(small))}")
    return _listed("the rest", texts, width)


def _listed(title: str, texts: Sequence[str], width: int, more: int = 0) -> Text:
    """Texts with commas between them, behind a title; empty without any."""
    if not texts:
        return Text()
    pieces = [*(Text(f"{text},") for text in texts[:-1]), Text(texts[-1])]
    left = [Text(f"and {more} more", "dim")] if more else []
    return flow([Text(title, "dim"), *pieces, *left], width, indent=2)


def short_path(path: CriticalPathAnswer) -> str:
    """The path for a line of a log, such as `46 ms ticks > quote > console`.

    A long one has its ends and its costliest operators.
    """
    steps = path["path"]
    if not steps:
        return ""
    titles, costs = [step["operator"] for step in steps], [step["latencyMs"] or 0.0 for step in steps]
    most = len(titles)
    while len(text := " > ".join(_shortened(titles, costs, most, lambda _: "..."))) > _CUT and most > _FEWEST:
        most -= 1
    return f"{milliseconds(path['latencyMs'])} {text}"


def _shortened(
    pieces: Sequence[Piece], costs: Sequence[float], most: int, left_out: Callable[[int], Piece]
) -> list[Piece]:
    """So many of the pieces, with `left_out` of how many where some are not shown."""
    found: list[Piece] = []
    before = -1
    for number in _shown(costs, most):
        if number > before + 1:
            found.append(left_out(number - before - 1))
        found.append(pieces[number])
        before = number
    return found


def _shown(costs: Sequence[float], most: int) -> list[int]:
    """Which steps to show if not all fit: both ends, then the costliest, of equal ones the outer."""
    last = len(costs) - 1
    inner = sorted(range(1, last), key=lambda number: (-costs[number], min(number, last - number)))
    return sorted({0, last, *inner[: max(0, most - 2)]})


def average_path(
    path: CriticalPathAnswer, own_ms: Mapping[str, float], width: int, estimated: Collection[str] = ()
) -> Text:
    """The critical path of the averages; empty before the first window.

    Args:
        path: As `/criticalPath` gives it.
        own_ms: Average own latency (compute and transfer) by operator.
        width: Columns.
        estimated: The operators of which that is an estimate.

    Returns:
        Titles with their own average time and the share of windows in which they were on the path.
    """
    titles = path["average"]["path"]
    pieces = []
    for number, title in enumerate(titles):
        piece = Text.assemble(("> " if number else "", "dim"), (title, "bold"))
        if title in own_ms:
            piece.append(f" {about(milliseconds(own_ms[title]), title in estimated)}")
        share = path["share"].get(title)
        pieces.append(piece if share is None else piece.append(f" ({share:.0%})", "dim"))
    if not pieces:
        return Text()
    whole = Text.assemble(("= ", "dim"), (milliseconds(path["average"]["latencyMs"]), "bold"))
    return flow([*_cut(pieces, [own_ms.get(title, 0.0) for title in titles]), whole], width, indent=2)


def slack_text(path: CriticalPathAnswer, width: int) -> Text:
    """Which operators are nearest to the critical path, and by how much; empty if none is off it."""
    found = sorted(path["slack"].items(), key=lambda item: (item[1], item[0]))
    texts = [f"{title} {milliseconds(ms)}" for title, ms in found]
    return _listed("slack", texts[:_SHOWN_SLACK], width, max(0, len(texts) - _SHOWN_SLACK))


def critical_path_parts(path: CriticalPathAnswer, width: int) -> list[RenderableType]:
    """All that `/criticalPath` answers: path, rest, slack, average, and the window's blame chain."""
    if not path["path"]:
        return [Text("no window is committed yet")]
    lines = [
        _window(path),
        path_text(path, width),
        rest_text(path, width),
        slack_text(path, width),
    ]
    average = Text.assemble(("on average ", "dim"), average_path(path, {}, width))
    waited = Text("what the window waited for, from its trigger to its commit:")
    if len(path.get("windows", ())) > 1:
        waited = Text("what results waited for, from the first trigger to the last commit:")
    blame = blame_table(path["blame"], width)
    return [*(line for line in lines if line), average, Text(), waited, blame]


def _window(path: CriticalPathAnswer) -> Text:
    """`window 8`; of several regions `window 84 of fast, window 8 of slow`."""
    windows: Mapping[str, int | None] = path.get("windows") or {"": path["windowId"]}
    line = Text()
    for number, (region, window) in enumerate(windows.items()):
        first = ", window " if number else "window "
        line.append_text(Text.assemble((first, "dim"), (count(window), "bold")))
        if region:
            line.append(f" of {region}")
    return line


def _cut(pieces: list[Text], costs: Sequence[float]) -> list[Text]:
    """The pieces of a long path without the cheap ones between; what is left out is counted."""
    if len(pieces) <= _LONG:
        return pieces
    return _shortened(pieces, costs, _KEPT, lambda left_out: Text(f"> ... {left_out} more ...", "dim"))
