"""A sheet of an Excel file as lines of CSV."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.connect.extras import library
from ridgeline.operators.files._as_lines import AsLines


def openpyxl() -> Any:
    """The library. Raises RidgelineError if it is not installed."""
    return library("openpyxl", "Excel files need openpyxl, which cannot be imported", "excel")


class SheetFile(AsLines):
    """An Excel file, of which a sheet is read as CSV: a line for each row, with the texts of its cells.

    Line numbers are those of the sheet, unless texts have line ends in them.
    """

    what = "Excel"

    def __init__(self, file: Any, sheet: str | None) -> None:
        super().__init__(file)
        self._sheet = sheet

    def converted(self, data: bytes) -> bytes:
        """The lines. Raises RidgelineError for a sheet that is not there, errors of openpyxl."""
        library = openpyxl()
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        book = library.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        for row in _rows(self._found(book)):
            if any(row):
                writer.writerow(row)
            else:
                text.write("\n")
        return text.getvalue().encode()

    def _found(self, book: Any) -> Any:
        """The sheet. Raises RidgelineError if there is none of this name."""
        if self._sheet is None:
            return book.worksheets[0]
        if self._sheet not in book.sheetnames:
            hint = did_you_mean(self._sheet, book.sheetnames)
            raise RidgelineError(f"file `{self.path}` has no sheet `{self._sheet}`; {hint}")
        return book[self._sheet]


def _rows(sheet: Any) -> Iterator[Sequence[str]]:
    """The rows as texts, as many in each as the widest row before has."""
    sheet.reset_dimensions()  # some programs write wrong ones
    width = 0
    for row in sheet.iter_rows(values_only=True):
        texts = [_text(value) for value in row]
        if not width:
            while texts and not texts[-1]:
                texts.pop()
            width = len(texts)
        texts += [""] * (width - len(texts))
        while len(texts) > width and not texts[-1]:
            texts.pop()
        yield texts


def _text(value: Any) -> str:
    """A cell as CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, dt.timedelta):
        return format(Decimal(value // dt.timedelta(microseconds=1)).scaleb(-6), "f")
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    return str(value)
