"""Print tuples as lines on the console."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field
from rich.text import Text

from ridgeline.api.columns.schema import Schema, holds_pickles, is_named_tuple
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
        if self.format == "jsonl" and self.string_format != "{}":
            return [("string_format", self.string_format, 'is the form of a line of `format="text"`')]
        try:
            list(string.Formatter().parse(_braces(self.string_format)))
        except ValueError as error:
            return [
                (
                    "string_format",
                    self.string_format,
                    f"cannot be parsed: {error}; use `{{}}` for the tuple, `{{{{` for a brace",
                )
            ]
        return []

    @input.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Format the first tuples as lines, count the others.

        Raises RidgelineError for a tuple that `string_format` cannot show, or that JSON cannot have.
        """
        if self.format == "jsonl":
            self._take_json(batch)
            return
        shown: int = vars(self).get("_shown", 0)
        first = batch.slice(0, max(0, self.limit - shown))
        self._shown = shown + len(first)
        if holds_pickles(batch):
            rows = [(value, _fields(value)) for value in Schema(object).decode(first)]
        else:
            rows = [(None, row) for row in first.to_pylist()]
        self.context.hand_over(
            ([self._line(value, fields) for value, fields in rows], len(batch) - len(first))
        )

    def _take_json(self, batch: pa.RecordBatch) -> None:
        """Hand over the lines of all tuples."""
        if holds_pickles(batch):
            msg = f"`{self.context.name}` cannot print a stream of `object` as JSON: it has no columns; give "
            msg += "the output port upstream a schema (a NamedTuple, a dataclass or a `pyarrow.Schema`)"
            raise RidgelineError(msg)
        self.context.hand_over(json_lines(pa.table(batch)).decode())

    def publisher(self) -> Publisher:
        """The driver's half."""
        if self.format == "jsonl":
            return JsonLinesPublisher("{}")
        return ConsolePublisher(_braces(self.string_format))

    def _line(self, value: object, fields: Mapping[str, object] | None) -> Line:
        """Format one tuple. `fields`: its values by name; None if it has no fields, then `value` is printed.

        Where `string_format` shows the whole tuple once, the texts of the fields stay apart, to be aligned
        later.
        """
        template = _braces(self.string_format)
        if _whole(template):
            if fields is None:
                return [Cell("", readable(value))]
            return [
                Cell(f"{printable(name)}=", readable(cell), is_number(cell)) for name, cell in fields.items()
            ]
        own = fields or {}
        try:
            whole = "  ".join(f"{name}={readable(cell)}" for name, cell in own.items())
            text = template.format(
                readable(value) if fields is None else whole,
                **{name: _of_one_line(cell) for name, cell in own.items()},
            )
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            raise self._misfit(error, own) from error
        return [Cell("", printable(text))]

    def _misfit(self, error: Exception, fields: Mapping[str, object]) -> RidgelineError:
        """The error for a tuple that `string_format` cannot show."""
        what = f"`string_format` {self.string_format!r} cannot show a tuple with the fields {list(fields)}"
        if isinstance(error, KeyError):
            name = str(error.args[0])
            return RidgelineError(f"{what}; it names `{name}`; {did_you_mean(name, fields)}")
        return RidgelineError(f"{what}; {error}; use `{{}}` once for the tuple, `{{name}}` for a field")


class Cell(NamedTuple):
    """A text of a line, behind a label: the name of a field, or nothing."""

    label: str
    text: str
    is_number: bool = False


Line = Sequence[Cell]
"""The texts of one tuple."""


class ConsolePublisher(Publisher):
    """Print the lines of all partitions after the window's commit."""

    groups_windows = True
    lasting = False

    def __init__(self, template: str) -> None:
        self._around = _whole(template)
        self._staged: dict[int, Sequence[Any]] = {}
        self._labels: list[str] = []
        self._widths: list[int] = []

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
        for line in lines:
            self._fit(line)
        for line in lines:
            self._print(self._text(line))
        if left_out := sum(number for _, number in parts):
            name = self._context.operator
            more = f"{name}  ... and {left_out:,} more in window {window_id}; `-D {name}.limit=N` shows more"
            self._print(Text(more, "dim"))

    def _print(self, text: Text) -> None:
        text.rstrip()
        self._context.console.print(text, soft_wrap=True, highlight=False)

    def _fit(self, line: Line) -> None:
        """Widen the columns for a line. They never shrink, so that windows stay aligned with each other."""
        labels = [cell.label for cell in line]
        if labels != self._labels:
            self._labels, self._widths = labels, [0] * len(line)
        self._widths = [
            # one long value does not widen its column for good
            max(width, len(cell.text)) if len(cell.text) <= _WIDEST else width
            for width, cell in zip(self._widths, line, strict=True)
        ]

    def _text(self, line: Line) -> Text:
        """Align a line's values, numbers to the right, others to the left; dim names, colour the prefix."""
        text = Text()
        if self._around is None:
            return text.append(line[0].text)
        before, after = self._around
        if not before and not after:
            text.append(f"{self._context.operator}  ", "cyan")
        text.append(before, "cyan")
        fits = [cell.label for cell in line] == self._labels
        for number, cell in enumerate(line):
            width = self._widths[number] if fits else 0
            text.append("  " if number else "").append(cell.label, "dim")
            last = number == len(line) - 1
            text.append(cell.text.rjust(width) if cell.is_number else cell.text.ljust(0 if last else width))
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

    def rewind(self, window_id: int, state: object, at: int) -> None:
        """Say that what was printed after the window does not count."""
        what = f"what `{self._context.operator}` has printed after window {window_id} does not count"
        self._context.warn(f"rewound: {what}")


def is_number(value: object) -> bool:
    """True of what is aligned to the right."""
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
    """The fields of a tuple of an `object` stream; None if it has none."""
    if is_named_tuple(type(value)):
        return dict(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {str(name): cell for name, cell in value.items()} if isinstance(value, dict) and value else None


def _braces(string_format: str) -> str:
    """The format with `{}` in place of the `%s` of Apex."""
    return string_format.replace("%s", "{}")


def _whole(template: str) -> tuple[str, str] | None:
    """The text before and after the tuple, if the format shows the whole tuple once and nothing else."""
    pieces = list(string.Formatter().parse(template))
    fields = [number for number, (_, name, _, _) in enumerate(pieces) if name is not None]
    if len(fields) != 1 or any(pieces[fields[0]][1:]):
        return None
    literals = [literal for literal, *_ in pieces]
    return "".join(literals[: fields[0] + 1]), "".join(literals[fields[0] + 1 :])
