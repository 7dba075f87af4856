"""The view of a running application that is drawn again and again; Ctrl-C leaves it."""

from __future__ import annotations

import contextlib

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.cli.remote.client import Client
from ridgeline.cli.remote.shared import make_console, print_json
from ridgeline.cli.views.running import running_lines
from ridgeline.cli.views.screen import screen
from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.operators import OperatorLinesAnswer
from ridgeline.measure.wording.times import to_blame

_SECOND = 1.0
_LEAVE = "Ctrl-C leaves; the application goes on"
_OVER = {"FINISHED", "STOPPED", "FAILED"}


def top(client: Client, *, as_json: bool) -> None:
    """Show the screen of `ridgeline run` every second, until the application ends."""
    console, clock = make_console(), SystemClock()
    answer = client.get("/overview")
    name = answer["info"].get("name") or client.url
    title = Text.assemble((name, "bold"), (f"  {_LEAVE}", "dim"))
    on_screen = console.is_terminal and not as_json
    live = Live(title, console=console, refresh_per_second=4, screen=True) if on_screen else None
    seen, said = None, ""
    with contextlib.suppress(KeyboardInterrupt), live or contextlib.nullcontext():
        while not said:
            if live is not None:
                live.update(Group(title, *_screen(client, answer, console)))
            elif answer["windowId"] not in {None, seen}:
                _print(client, answer, console, as_json=as_json)
            seen = answer["windowId"]
            if (state := answer["info"]["state"]) in _OVER:
                said = state.lower()
                break
            clock.wait(_SECOND)
            try:
                answer = client.get("/overview")
            except RidgelineError:
                said = "it does not answer any more"
    if live is not None and said:
        console.print(f"{name}: {said}")


def _print(client: Client, overview: OverviewAnswer, console: Console, *, as_json: bool) -> None:
    """Print an overview: a line of JSON, or the screen."""
    if as_json:
        print_json(overview, indent=None)
        return
    for part in screen(overview, console.width, lines=_lines_of(client, to_blame(overview))):
        console.print(part, soft_wrap=isinstance(part, Text))
    console.print()


def _screen(client: Client, overview: OverviewAnswer, console: Console) -> list[RenderableType]:
    """An overview on a terminal; before the first window what runs."""
    if overview["windowId"] is None:
        return [Text("no window is committed yet"), *running_lines(overview["progress"])]
    metrics = None
    with contextlib.suppress(RidgelineError):  # who asks for the next overview says what happened
        metrics = client.get("/metrics")
    lines = _lines_of(client, to_blame(overview))
    return screen(overview, console.width, console.height - 2, metrics, lines)


def _lines_of(client: Client, operator: str | None) -> OperatorLinesAnswer | None:
    """Where the time of an operator goes by line; None if that is not known, or not any more."""
    if operator is None:
        return None
    try:
        operators = client.get("/lines", operator=operator)["operators"]
    except RidgelineError:
        return None
    return operators[0] if operators else None
