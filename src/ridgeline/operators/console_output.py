"""Print tuples as lines on the console."""

from __future__ import annotations

import itertools
import string
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field
from rich.text import Text

from ridgeline.api.columns.schema import Schema, holds_pickles
from ridgeline.api.columns.struct_types import field_names
from ridgeline.api.errors import RidgelineError, did_you_mean, shorten
from ridgeline.api.operator import Operator
from ridgeline.api.ports import InputPort
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.support.masking import printable
from ridgeline.operators._json import json_lines

_WIDEST = 28
"""Values longer than this many characters do not widen their column."""
_LONGEST = 120


class ConsoleOutput(Operator):
    """Print the tuples of each committed window, one a line, in aligned columns.

    `string_format` is the form of a line. `{}` (or `%s`) stands for the whole tuple, `{price:.2f}` for one of
    its fields: `"QUOTE: {}"`, `"{symbol} costs {price:.2f}"`. Without it, the operator's name stands in
    front. At most `limit` tuples a window and partition are printed, followed by the number of those left
    out.

    `format="jsonl"` prints each tuple as a JSON object on a line of its own, all of them: `ridgeline run
    app.py --quiet | jq .cents` reads these alone. Types are written as `FileOutput` writes them.

    Tuples of a failed window are never printed, and none is printed twice. After a crash between the commit
    and the printing, the window's tuples are not printed later.

    Example:
        >>> import sys
        >>> from typing import NamedTuple
        >>> from rich.console import Console
        >>> from ridgeline import Application
        >>> from ridgeline.operators import ConsoleOutput
        >>> from ridgeline.testing import ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3), ("SAP", 101.25)]))
        >>> console = app.add_operator("console", ConsoleOutput())
        >>> app.add_stream("prices", prices.output, console.input)
        >>> run = run_local(app, console=Console(file=sys.stdout, no_color=True))
        console  symbol=IBM  price=  12.3
        console  symbol=SAP  price=101.25
    """

    input = InputPort(Any)

    string_format: str = "{}"
    limit: int = Field(default=20, ge=0)
    format: Literal["text", "jsonl"] = Field(default="text", kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a `string_format` that cannot be parsed, or beside JSON."""
        rule = ""
        if self.format == "jsonl" and self.string_format != "{}":
            rule = 'is the form of a line of `format="text"`'
        try:
            _around(self.string_format)
        except ValueError as error:
            rule = f"cannot be parsed: {error}; use `{{}}` for the tuple, `{{{{` for a brace"
        return [("string_format", self.string_format, rule)] if rule else []

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Format the first tuples as lines, count the others.

        Raises RidgelineError for a tuple that `string_format` cannot show, or that JSON cannot have.
        """
        are_objects = holds_pickles(batch)
        if self.format == "jsonl":
            if are_objects:
                msg = f"`{self.context.name}` cannot print a stream of `object` as JSON: it has no columns; "
                msg += (
                    "give the output port upstream a schema (a NamedTuple, a dataclass or a `pyarrow.Schema`)"
                )
                raise RidgelineError(msg)
            self.context.hand_over(json_lines(pa.table(batch)).decode())
            return
        shown: int = vars(self).get("_shown", 0)
        first = batch.slice(0, max(0, self.limit - shown))
        self._shown = shown + len(first)
        rows = Schema(object).decode(first) if are_objects else first.to_pylist()
        self.context.hand_over((list(map(self._line, rows)), len(batch) - len(first)))

    def publisher(self) -> Publisher:
        """The driver's half."""
        if self.format == "jsonl":
            return JsonLinesPublisher(None)
        return ConsolePublisher(_around(self.string_format))

    def _line(self, value: Any) -> Line:
        """Format one tuple.

        Where `string_format` shows the whole tuple once, the texts of the fields stay apart, to be aligned
        later.
        """
        fields = _fields(value)
        line = [Cell("", readable(value))]
        if fields is not None:
            line = [
                Cell(f"{printable(name)}=", readable(cell), _is_number(cell)) for name, cell in fields.items()
            ]
        if _around(self.string_format):
            return line
        own = fields or {}
        what = f"`string_format` {self.string_format!r} cannot show a tuple with the fields {list(own)}"
        try:
            text = _braces(self.string_format).format(
                "  ".join(cell.label + cell.text for cell in line),
                **{name: _of_one_line(cell) for name, cell in own.items()},
            )
        except KeyError as error:
            name = str(error.args[0])
            raise RidgelineError(f"{what}; it names `{name}`; {did_you_mean(name, own)}") from error
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            remedy = "use `{}` once for the tuple, `{name}` for a field"
            raise RidgelineError(f"{what}; {error}; {remedy}") from error
        return [Cell("", printable(text))]


class Cell(NamedTuple):
    """A text of a line, behind a label: the name of a field, or nothing."""

    label: str
    text: str
    is_number: bool = False


Line = Sequence[Cell]
"""The texts of one tuple."""


class ConsolePublisher(Publisher):
    """Print the lines of all partitions after the window's commit.

    `around`: the texts before and after a line; None: it has all of it.
    """

    groups_windows = True
    lasting = False

    def __init__(self, around: tuple[str, str] | None) -> None:
        self._around = around
        self._staged: dict[int, Sequence[Any]] = {}
        self._widths: dict[str, int] = {}
        """Of the columns, by label. They never shrink, so that windows stay aligned with each other."""

    def open(self, context: PublisherContext, state: object) -> None:
        """Keep the context: its console is printed to."""
        self._context = context

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        """Keep the lines until `publish`; nothing of them is checkpointed."""
        self._staged[window_id] = values

    def publish(self, window_id: int) -> None:
        """Print the lines of the staged windows."""
        for staged in sorted(self._staged):
            self._print_window(staged, self._staged.pop(staged))

    def rewind(self, window_id: int, state: object, at: int) -> None:
        """Say that what was printed after the window does not count."""
        text = f"{self._context.operator}  rewound: what was printed after window {window_id} does not count"
        self._print(Text(text, "yellow"))

    def _print_window(self, window_id: int, parts: Sequence[tuple[Sequence[Line], int]]) -> None:
        """Print lines; parts have some each, and how many tuples were left out."""
        lines = [line for some, _ in parts for line in some]
        for label, text, _ in itertools.chain.from_iterable(lines):
            if len(text) <= _WIDEST:  # one long value does not widen its column for good
                self._widths[label] = max(self._widths.get(label, 0), len(text))
        for line in lines:
            self._print(self._text(line))
        if left_out := sum(number for _, number in parts):
            name = self._context.operator
            more = f"{name}  ... and {left_out:,} more in window {window_id}; `-D {name}.limit=N` shows more"
            self._print(Text(more, "dim"))

    def _print(self, text: Text) -> None:
        text.rstrip()
        self._context.console.print(text, soft_wrap=True, highlight=False)

    def _text(self, line: Line) -> Text:
        """Align a line's values, numbers to the right, others to the left; dim names, colour the prefix."""
        if self._around is None:
            return Text(line[0].text)
        before, after = self._around
        if not before and not after:
            before = f"{self._context.operator}  "
        text = Text().append(before, "cyan")
        for number, (label, value, is_number) in enumerate(line):
            width = self._widths.get(label, 0)
            text.append("  " if number else "").append(label, "dim")
            last = number == len(line) - 1
            text.append(value.rjust(width) if is_number else value.ljust(0 if last else width))
        return text.append(after)


class JsonLinesPublisher(ConsolePublisher):
    """Write lines of JSON to the console's file, as they are: also if the console is quiet."""

    def publish(self, window_id: int) -> None:
        """Write the lines of the staged windows. If their reader has gone away, the run ends in order."""
        console = self._context.console
        lines = "".join(text for staged in sorted(self._staged) for text in self._staged.pop(staged))
        try:
            console.file.write(lines)
            console.file.flush()
        except BrokenPipeError:
            console.on_broken_pipe()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def readable(value: object) -> str:
    """Format a value for a reader: no quotes, at most four decimals, times without fractions that are zero.

    >>> readable(12.300000001), readable("IBM"), readable(None), readable(datetime(2026, 1, 1, tzinfo=UTC))
    ('12.3', 'IBM', '-', '2026-01-01 00:00:00Z')
    """
    if value is None:
        return "-"
    if isinstance(value, float):
        return (
            f"{value:.4f}".rstrip("0").removesuffix(".")
            if value == 0 or 1e-3 <= abs(value) < 1e15  # noqa: PLR2004
            else f"{value:.6g}"
        )
    if isinstance(value, datetime):
        text = (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(" ")
        return f"{text}Z" if value.tzinfo else text
    if isinstance(value, str):
        return value if value.isprintable() and len(value) <= _LONGEST else shorten(value, _LONGEST)
    if isinstance(value, (int, Decimal, date)):
        return str(value)
    return printable(shorten(value, _LONGEST))


def _of_one_line(value: object) -> object:
    """Escape line breaks in text, so that it cannot start a line of its own; keep other values."""
    return value.replace("\n", "\\n") if isinstance(value, str) else value


def _fields(value: Any) -> Mapping[str, object] | None:
    """The fields of a tuple; None if it has none."""
    if isinstance(value, dict):
        return {str(name): cell for name, cell in value.items()} or None
    names = field_names(type(value))
    return None if names is None else {name: getattr(value, name) for name in names}


def _braces(string_format: str) -> str:
    """The format with `{}` in place of the `%s` of Apex."""
    return string_format.replace("%s", "{}")


def _around(string_format: str) -> tuple[str, str] | None:
    """The texts before and after the tuple, if the format shows the whole tuple once and nothing else.

    Raises ValueError for one that cannot be parsed.
    """
    pieces = list(string.Formatter().parse(_braces(string_format)))
    fields = [number for number, (_, name, _, _) in enumerate(pieces) if name is not None]
    if len(fields) != 1 or any(pieces[fields[0]][1:]):
        return None
    literals = [literal for literal, *_ in pieces]
    return "".join(literals[: fields[0] + 1]), "".join(literals[fields[0] + 1 :])
