"""Escape sequences of data reach no terminal: in errors, tables, JSON, and from the console operator."""

from __future__ import annotations

import io
import json
import os
from typing import Any, NamedTuple

import pytest
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ridgeline import Application
from ridgeline.api.errors import Failure, OperatorError, RidgelineError
from ridgeline.cli.errors import print_error, print_unexpected
from ridgeline.cli.output import Output, OutputGoneError, write
from ridgeline.cli.remote.shared import print_json
from ridgeline.operators import ConsoleOutput
from ridgeline.testing import ListInput, run_local

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1m\u202e"


def terminal(**more: Any) -> tuple[Output, io.StringIO]:
    file = io.StringIO()
    return Output(
        lambda: None, file=file, force_terminal=True, width=200, color_system="truecolor", **more
    ), file


def harmless(text: str) -> bool:
    return (
        not any(evil in text for evil in ("\x1b]", "\x1b[2J", "\x1b[31m", "\x07", "\x9b", "\u202e"))
        and "\\x1b[2J" in text
    )


def test_a_console_shows_them_and_keeps_its_own() -> None:
    console, file = terminal()
    table = Table("operator", title=EVIL)
    table.add_row(Text(EVIL, "bold"))
    console.print(table)
    console.print(EVIL)
    with Live(Text(EVIL), console=console, refresh_per_second=1):
        pass
    assert harmless(file.getvalue())
    assert "\x1b[1m" in file.getvalue(), "bold"


@pytest.mark.parametrize(
    "error",
    [
        RidgelineError(EVIL),
        OperatorError(
            Failure("app", "step", 0, 1, "process", f"ValueError: {EVIL}", EVIL, f"line 1\n {EVIL}\n")
        ),
    ],
)
def test_errors(error: RidgelineError) -> None:
    console, file = terminal()
    print_error(error, console)
    print_unexpected(error, console)
    assert harmless(file.getvalue())


def test_answers(capsys: pytest.CaptureFixture[str]) -> None:
    write(EVIL)
    assert harmless(capsys.readouterr().out)
    print_json({EVIL: EVIL})
    out = capsys.readouterr().out
    assert not any(evil in out for evil in ("\x1b", "\x07", "\x9b", "\u202e"))
    assert json.loads(out) == {EVIL: EVIL}


class Named(NamedTuple):
    symbol: str
    price: float


class Thing:
    def __repr__(self) -> str:
        return EVIL


@pytest.mark.parametrize(
    ("schema", "value", "string_format"),
    [
        (Named, Named(EVIL, 1.0), "{}"),
        (Named, Named(EVIL, 1.0), "{symbol} costs {price}"),
        (Named, Named(f"{EVIL}\nforged  symbol=IBM", 1.0), "{symbol}"),
        (object, EVIL, "{}"),
        (object, Thing(), "{}"),
        (object, {EVIL: 1}, "{}"),
        (object, {EVIL: Thing()}, "got {}"),
    ],
)
def test_the_console_operator(schema: Any, value: Any, string_format: str) -> None:
    file = io.StringIO()
    app = Application("app")
    source = app.add_operator("source", ListInput(schema, [value]))
    app.add_stream(
        "rows", source.output, app.add_operator("console", ConsoleOutput(string_format=string_format)).input
    )
    run_local(app, console=Console(file=file, force_terminal=True, width=400, color_system=None))
    assert harmless(file.getvalue())
    assert len(file.getvalue().splitlines()) == 1


def test_a_console_whose_reader_has_gone_goes_on_in_silence() -> None:
    source, sink = os.pipe()
    os.close(source)
    called: list[str] = []
    with os.fdopen(os.dup(sink), "w") as file:
        console = Output(lambda: called.append("gone"), file=file)
        for _ in range(3):
            console.print("x")
        assert called == ["gone"]
    with os.fdopen(sink, "w") as file, pytest.raises(OutputGoneError):
        Output(file=file).print("x")
