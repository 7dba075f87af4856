"""Views of a running application that are drawn again and again: `top` and `--watch`.

Ctrl-C leaves them; the application continues.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

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

Draw = Callable[[Any, int], Iterable[RenderableType]]


def top(client: Client, *, as_json: bool) -> None:
    """Show the screen of `ridgeline run` with each overview, and every second within a long window."""
    console = make_console()
    name = client.get("/info").get("name") or client.url
    if as_json or not console.is_terminal:
        each_window(
            client,
            lambda overview: overview,
            lambda overview, width: screen(overview, width, lines=_lines_of(client, to_blame(overview))),
            as_json=as_json,
        )
        return
    overviews = _Overviews(client)
    overviews.start()
    title = Text.assemble((name, "bold"), (f"  {_LEAVE}", "dim"))
    with _leaving(), Live(title, console=console, refresh_per_second=4, screen=True) as live:
        while not overviews.ended.is_set():
            with contextlib.suppress(RidgelineError):  # the stream of overviews reports what happened
                live.update(Group(title, *_screen(client, overviews.newest(), console)))
            overviews.news.wait(_SECOND)
            overviews.news.clear()
    if overviews.ended.is_set():
        console.print(overviews.farewell(name))


def _lines_of(client: Client, operator: str | None) -> OperatorLinesAnswer | None:
    """Where the time of an operator goes by line; None if that is not known, or not any more."""
    if operator is None:
        return None
    try:
        operators = client.get("/lines", operator=operator)["operators"]
    except RidgelineError:  # what reads the overviews reports what happened
        return None
    return operators[0] if operators else None


def _screen(client: Client, overview: OverviewAnswer | None, console: Console) -> list[RenderableType]:
    """The last overview, with what is known now of the window that runs."""
    progress = client.get("/progress")
    if overview is None:
        return [Text("no window is committed yet"), *running_lines(progress)]
    # Its state, too: an application that pauses commits no window to say so.
    now: OverviewAnswer = {**overview, "progress": progress, "info": client.get("/info")}
    lines = _lines_of(client, to_blame(now))
    return screen(now, console.width, console.height - 2, client.get("/metrics"), lines)


def each_window(client: Client, choose: Callable[[Any], object], draw: Draw, *, as_json: bool) -> None:
    """Print a part of every overview, or redraw it on a terminal, until the application ends or Ctrl-C."""
    console = make_console()
    with _leaving(), _redrawn(console, as_json=as_json) as show:
        for name, answer in client.events():
            if name == "window":
                show(choose(answer), draw)


def each_second(client: Client, path: str, draw: Draw, *, as_json: bool) -> None:
    """Ask again every second, until the application ends or Ctrl-C."""
    console, clock = make_console(), SystemClock()
    answer = client.get(path)
    with _leaving(), _redrawn(console, as_json=as_json) as show:
        while True:
            show(answer, draw)
            clock.wait(_SECOND)
            try:
                answer = client.get(path)
            except RidgelineError:
                return


class _Overviews:
    """Reads overviews in a thread of its own; `news` is set with each one, `ended` after the last one."""

    def __init__(self, client: Client) -> None:
        self.news = threading.Event()
        self.ended = threading.Event()
        self._client = client
        self._clock = SystemClock()
        self._latest: tuple[OverviewAnswer, float] | None = None
        self._state = ""
        self._error: RidgelineError | None = None

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="ridgeline-overviews", daemon=True).start()

    def newest(self) -> OverviewAnswer | None:
        """The newest overview, its `at` moved on to now; None before the first window."""
        if self._latest is None:
            return None
        overview, received = self._latest
        return {**overview, "at": overview["at"] + self._clock.monotonic() - received}

    def farewell(self, name: str) -> str:
        """Why there are no more overviews."""
        if self._error is not None:
            raise self._error
        return f"{name}: {self._state.lower() or 'the service has closed the connection'}"

    def _read(self) -> None:
        """Read overviews into the screen, from a thread of its own, until the application ends."""
        try:
            for kind, answer in self._client.events():
                if kind == "window":
                    self._latest = answer, self._clock.monotonic()
                    self.news.set()
                elif kind == "end":
                    self._state = answer.get("state") or ""
        except RidgelineError as error:
            self._error = error
        finally:
            self.ended.set()
            self.news.set()


@contextlib.contextmanager
def _leaving() -> Iterator[None]:
    """Ctrl-C is the way out, not an error."""
    with contextlib.suppress(KeyboardInterrupt):
        yield


@contextlib.contextmanager
def _redrawn(console: Console, *, as_json: bool) -> Iterator[Callable[[Any, Draw], None]]:
    """Give a function that shows an answer.

    A terminal is redrawn; elsewhere answers follow each other; JSON is a line each.
    """
    if as_json:
        yield lambda answer, _draw: print_json(answer, indent=None)
    elif console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            yield lambda answer, draw: live.update(Group(*draw(answer, console.width)))
    else:
        yield lambda answer, draw: _print(console, draw(answer, console.width))


def _print(console: Console, parts: Iterable[RenderableType]) -> None:
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text))
    console.print()
