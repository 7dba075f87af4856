"""Where the Python time of operators goes, by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.tables import Columns, fitted
from ridgeline.measure.answers.lines import (
    LineAnswer,
    LinesAnswer,
    OperatorLinesAnswer,
    OperatorStacksAnswer,
    StacksAnswer,
)
from ridgeline.measure.wording.units import duration

NONE = (
    "no samples yet: processes send them every 5 seconds, from operators that work; at recording level OFF "
    "there are none"
)
_SHOWN = 10
_LEAST = 0.01


def lines_parts(answer: LinesAnswer, width: int) -> Iterator[Table | Text]:
    """For each operator a line of text, and a table of its lines."""
    if not answer["operators"]:
        yield Text(NONE)
    for one in answer["operators"]:
        yield Text(printable(f"{one['operator']}: {duration(one['seconds'])} of the last minute"), "bold")
        yield fitted(_columns(one), width, ("function",), left=("where", "line", "function"))


def folded_lines(answer: StacksAnswer) -> Iterator[Text]:
    """A line for each stack that time was spent in: functions from the outside in, and milliseconds."""
    for one in answer["operators"]:
        rest = one["seconds"] - sum(row["seconds"] for row in one["functions"] if row["caller"] < 0)
        if (spent := round(1000 * rest)) > 0:
            yield Text(f"{_folded(one['operator'])} {spent}")
        for stack, seconds in _stacks(one):
            if (spent := round(1000 * seconds)) > 0:
                yield Text(f"{';'.join(stack)} {spent}")


def _stacks(one: OperatorStacksAnswer) -> Iterator[tuple[list[str], float]]:
    """Each stack of an operator, with the time in its last function itself."""
    stacks: list[list[str]] = []
    for row in one["functions"]:
        above = stacks[row["caller"]] if row["caller"] >= 0 else [_folded(one["operator"])]
        name = PurePath(row["file"]).name
        where = f" ({name}:{row['line']})" if name else ""
        stacks.append([*above, _folded(f"{row['function']}{where}")])
        yield stacks[-1], row["ownSeconds"]


def _folded(text: str) -> str:
    """A text that ends no function of a folded stack."""
    return printable(text).replace(";", ",")


def _columns(one: OperatorLinesAnswer) -> Columns:
    rows = [row for row in one["lines"] if row["share"] >= _LEAST][:_SHOWN]
    return {
        "time": [Text(f"{row['share']:.0%}") for row in rows],
        "of path": [Text(f"{row['ofPath']:.0%}", "" if row["ofPath"] else "dim") for row in rows],
        "where": [Text(printable(_where(row))) for row in rows],
        "line": [Text(printable(row["text"])) for row in rows],
        "function": [Text(printable(row["function"]), "dim") for row in rows],
    }


def _where(row: LineAnswer) -> str:
    """`clicks.py:41`; what is not said by line is Ridgeline's own work, and lines with little time."""
    return f"{PurePath(row['file']).name}:{row['line']}" if row["line"] else "(Ridgeline, and other lines)"
