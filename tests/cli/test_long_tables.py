"""Tables of very many rows look as those of a few."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from ridgeline.cli import tables

NAMES = ["counts", "ä€", "受注", "x" * 30, "😀 smiling"]


def printed(rows: int, width: int, *, colours: bool = False) -> list[str]:
    """The lines of a table, without spaces at their ends."""
    columns = {
        "operator": [Text(NAMES[row % len(NAMES)], "bold red") for row in range(rows)],
        "id": [Text(str(row)) for row in range(rows)],
        **{f"c{number}": [Text(f"{row * number:,}") for row in range(rows)] for number in range(8)},
    }
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=colours, color_system="standard" if colours else None
    )
    console.print(tables.fitted(columns, width, ("c7", "c6")))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_lines_that_are_too_long_have_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MANY_ROWS", 10)
    lines = printed(40, 40)
    assert len(lines) == 41
    assert all(line.endswith("…") for line in lines)
    assert {Text(line).cell_len for line in lines} == {40}
