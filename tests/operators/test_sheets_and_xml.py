"""Excel and XML files as inputs: what is in them is read as it is, or refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.operators import FileInput
from ridgeline.testing import CollectorSink, Faults, run_local


def read(path: Path, kind: Any, *, on_error: OnError | None = None, **properties: Any) -> list[Any]:
    app = Application("rows")
    attributes: dict[str, Any] = {} if on_error is None else {"on_error": on_error}
    source: FileInput[Any] = FileInput(path, kind, until="end", settle=0.0, **properties)
    rows = app.add_operator("rows", source, **attributes)
    sink = app.add_operator("sink", CollectorSink(kind))
    app.add_stream("rows", rows.output, sink.input)
    faults = Faults(seed=1, rate=0.1, kinds=("exception", "repeat", "restart"), quiet=True)
    return run_local(app, faults=faults).collected("sink")


def write(path: Path, sheets: dict[str, Sequence[Sequence[Any]]]) -> None:
    book = openpyxl.Workbook(write_only=True)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)


class Every(NamedTuple):
    number: int
    share: float | None
    name: str | None
    yes: bool | None
    day: dt.date | None
    at: dt.datetime | None
    took: dt.timedelta | None
    price: Decimal | None


NOW = dt.datetime(2026, 1, 31, 12, 30, 15)  # noqa: DTZ001  a sheet has no zones


def test_cells_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    rows = [
        [None],
        ["number", "share", "ignored", "name", "yes", "day", "at", "took", "price"],
        [1, 0.1, "x", 'Zürich, "q"\nline', True, NOW.date(), NOW, dt.timedelta(hours=30, seconds=1.5), 1.25],
        [],
        [2.0, 1e300, None, "08123", False, dt.datetime(2026, 1, 1), NOW.date(), None, "3.5"],  # noqa: DTZ001
        [2**53 - 1],
    ]
    write(path, {"Orders": rows, "Other": [["number"], [7]]})
    found = read(path, Every, window_bytes=1000)
    utc = NOW.replace(tzinfo=dt.UTC)
    assert found == [
        Every(
            1,
            0.1,
            'Zürich, "q"\nline',
            True,
            NOW.date(),
            utc,
            dt.timedelta(hours=30, seconds=1.5),
            Decimal("1.25"),
        ),
        Every(
            2,
            1e300,
            "08123",
            False,
            dt.date(2026, 1, 1),
            utc.replace(hour=0, minute=0, second=0),
            None,
            Decimal("3.5"),
        ),
        Every(2**53 - 1, *[None] * 7),
    ]


class Row(NamedTuple):
    n: int


def test_the_sheet_is_named_and_what_does_not_fit_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    write(
        path,
        {
            "One": [["n"], [1]],
            "Two": [["n"], [2], ["x"], [2.5], ["#N/A"], [dt.date(2026, 1, 1)], [3, 4], [5]],
        },
    )
    assert read(path, Row) == [(1,)]
    assert read(path, Row, sheet="Two", on_error=OnError.SKIP) == [(2,), (5,)]
    with pytest.raises(RidgelineError, match=r"line 3 .* of `.*a\.xlsx` .*got 'x'"):
        read(path, Row, sheet="Two")
    with pytest.raises(RidgelineError, match="no sheet `Twoo`; did you mean `Two`"):
        read(path, Row, sheet="Twoo")


@pytest.mark.parametrize("cut", [0, 100, -30])
def test_a_file_that_is_none_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.xlsx"
    write(path, {"One": [["n"], [1]]})
    path.write_bytes(path.read_bytes()[:cut] + (b"" if cut else b"no zip"))
    with pytest.raises(RidgelineError, match="is no Excel file or corrupt"):
        read(path, Row)


class Item(NamedTuple):
    id: int
    name: str
    price: Decimal | None
    note: str | None


XML = """<?xml version="1.0" encoding="{encoding}"?>
<!-- orders -->
<o:orders xmlns:o="urn:orders" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <o:item id="1"><o:name>Zürich &amp; "co"
, x</o:name><price> 1.50 </price><note/><other><name>inner</name></other></o:item>
  <o:item id="2"><name><![CDATA[<b>]]></name><price xsi:nil="true"/></o:item>
  <o:item id="x"><name>a</name></o:item>
  <o:item id="3"/>
  <o:item id="4"><name>a</name><name>b</name></o:item>
  <o:item id="5"><name><first>a</first></name></o:item>
  <o:item><id>6</id><name></name><price>NA</price></o:item>
  <o:item><id>7</id><name> NA </name><price></price></o:item>
</o:orders>
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "utf-8-sig"])
def test_records_of_xml_are_read_or_left_out(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(XML.format(encoding=encoding.removesuffix("-sig")).encode(encoding))
    assert read(path, Item, record="item", on_error=OnError.SKIP, window_bytes=100) == [
        (1, 'Zürich & "co"\n, x', Decimal("1.5"), ""),
        (2, "<b>", None, None),
        (7, " NA ", None, None),
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("", ""), r"record 3 of `.*a\.xml` is not"),
        (("</o:orders>", ""), "is no XML file or corrupt: no element found"),
        (('id="1"', 'id="1" id="2"'), "duplicate attribute"),
        (("&amp;", "&more;"), "undefined entity"),
        (("<name>a</name></o:item>", "</o:item>"), "record 3 has no `name`"),
        (('"x"', '"0"'), "record 4 has no `name`"),
    ],
)
def test_xml_that_is_wrong_is_refused(tmp_path: Path, change: tuple[str, str], why: str) -> None:
    path = tmp_path / "a.xml"
    path.write_text(XML.format(encoding="utf-8").replace(*change, 1))
    with pytest.raises(RidgelineError, match=why):
        read(path, Item, record="item")
