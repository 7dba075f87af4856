"""The page writes the values of tables as the terminal does: both have their columns from one place."""

import time

import pytest

from ridgeline.service.tables import TABLES
from support.cli import overviews
from support.cli.overviews import AT

pytestmark = pytest.mark.slow

UNKNOWN = {"value": None, "basis": "unknown"}
KNOWN = overviews.source()
SOURCES = [
    KNOWN,
    {**KNOWN, "unit": "bytes", "backlog": {"value": 5e6, "basis": "estimated"}},
    {**KNOWN, "backlog": {**UNKNOWN, "infinite": True}, "infinite": True, "backlogSeconds": None},
    {**KNOWN, "backlog": UNKNOWN, "oldest": UNKNOWN, "backlogSeconds": None, "caughtUpAt": None},
    {**KNOWN, "oldest": {"value": 70.0, "basis": "lower bound"}, "verdict": "stuck"},
]
WRITTEN = """async ([table, rows, at]) => {
    const {columnsOf} = await import("/page/parts/columns.js");
    const columns = columnsOf(table, rows, {at});
    return rows.map((row) => Object.fromEntries(columns.map((one) => [one.title, one.write(row)])));
}"""


def value(column, number):
    """A value of a column that reads one: a number of a table's row."""
    samples = {"str": "a name", "time_of_day": time.time() - number}
    return samples.get(column.form.__name__, 1234.5 * number)


def rows_of(columns):
    """Rows whose fields all have values, or none; with what columns of whole rows read."""
    more = [{"full": True, "fullInSeconds": None}, {"full": False, "fullInSeconds": 70.0}]
    plain = [{c.read: value(c, number) for c in columns if isinstance(c.read, str)} for number in range(3)]
    nothing = dict.fromkeys(plain[0])
    return [{**SOURCES[at], **row, **more[at % 2]} for at, row in enumerate([*plain, nothing])]


def test_values_are_written_as_in_the_terminal(application, open_page):
    page = open_page(application.server.url)
    for name, columns in TABLES.items():
        for rows in (SOURCES, rows_of(columns)) if name == "sources" else (rows_of(columns),):
            shown = page.evaluate(WRITTEN, [name, rows, AT])
            for row, cells in zip(rows, shown, strict=True):
                for title, cell in cells.items():
                    column = next(one for one in columns if one.title.lower() == title.lower())
                    assert cell.replace(" %", "%") == column.written(row, AT), (name, title)
