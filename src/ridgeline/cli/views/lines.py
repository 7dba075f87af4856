"""Where the Python time of operators goes, by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.tables import Columns, fitted
from ridgeline.measure.answers.operators import (
    LineAnswer,
    LinesAnswer,
    OperatorLinesAnswer,
)
from ridgeline.measure.wording.units import UNKNOWN, duration

_NONE = (
    "no samples yet: processes send them every 5 seconds, from operators that work; at recording level OFF "
    "there are none"
)
_SHOWN = 10
_LEAST = 0.01
_GAP = 2
_LEAST_CODE = 12
_NO_LINE = "(Ridgeline, and other lines)"
_LONGEST_PLACE = 16


def lines_parts(answer: LinesAnswer, width: int) -> Iterator[Table | Text]:
    """For each operator a line of text, and a table of its lines."""
    if not answer["operators"]:
        yield Text(_NONE)
    for one in answer["operators"]:
        yield Text(printable(f"{one['operator']}: {duration(one['seconds'])} of the last minute"), "bold")
        yield _lines_table(one, width)


def hottest_line(one: OperatorLinesAnswer) -> Text:
    """The line with the most time: `clicks.py:41 json.loads(text): 63% of its time, 38% of the path`.

    Empty if nothing is said by line.
    """
    row = next((row for row in one["lines"] if row["line"]), None)
    if row is None:
        return Text()
    code = f" {row['text'] or row['function']}"
    line = Text.assemble(
        printable(_where(row)), (printable(code), "bold"), f": {row['share']:.0%} of its time"
    )
    return line.append(f", {row['ofPath']:.0%} of the path") if row["ofPath"] else line


def _lines_table(one: OperatorLinesAnswer, width: int) -> Table:
    """The lines of an operator, the one with the most time first; without room places and code are cut."""
    columns = _columns(one)
    if sum(_width_of(name, cells) for name, cells in columns.items()) > width:
        del columns["function"]
        columns["where"] = [_end_of(place) for place in columns["where"]]
        others = sum(_width_of(name, cells) for name, cells in columns.items() if name != "line")
        for code in columns["line"]:
            code.truncate(max(_LEAST_CODE, width - others), overflow="ellipsis")
    return fitted(columns, width, (), ("where", "line", "function"))


def _width_of(name: str, cells: list[Text]) -> int:
    return max(len(name), *map(len, cells), 0) + _GAP


def _end_of(place: Text) -> Text:
    """The end of a place, which has the number of the line; what is no line is said shorter."""
    if len(place) <= _LONGEST_PLACE:
        return place
    return Text("(other)" if place.plain == _NO_LINE else f"…{place.plain[1 - _LONGEST_PLACE :]}")


def _columns(one: OperatorLinesAnswer) -> Columns:
    rows = [row for row in one["lines"] if row["share"] >= _LEAST][:_SHOWN]
    return {
        "of its time": [Text(f"{row['share']:.0%}") for row in rows],
        "of the path": [_of_path(row) for row in rows],
        "where": [Text(printable(_where(row))) for row in rows],
        "line": [Text(printable(row["text"])) for row in rows],
        "function": [Text(printable(row["function"]), "dim") for row in rows],
    }


def _of_path(row: LineAnswer) -> Text:
    return Text(f"{row['ofPath']:.0%}") if row["ofPath"] else Text(UNKNOWN, "dim")


def _where(row: LineAnswer) -> str:
    """`clicks.py:41`; what is not said by line is Ridgeline's own work, and lines with little time."""
    return f"{PurePath(row['file']).name}:{row['line']}" if row["line"] else _NO_LINE


def stack_text(answer: Mapping[str, Any]) -> Text:
    """Where the thread of a container is."""
    when = "now" if answer["fresh"] else f"as of its last heartbeat, {answer['lastHeartbeat']}"
    stack = answer["fresh"] or answer["stack"]
    if not stack:
        return Text(f"container {answer['id']} has said nothing yet of where it is")
    return Text(f"container {answer['id']}, process {answer['pid']} on {answer['host']}, {when}:\n{stack}")
