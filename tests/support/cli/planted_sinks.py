"""An application whose outputs have a planted fault each, for `ridgeline prove`."""

import sqlite3
from contextlib import closing
from typing import NamedTuple

from ridgeline import Application
from ridgeline.connect import Batch
from ridgeline.operators.sql_files import SqliteOutput
from ridgeline.operators.sql_files.sqlite_output import SqliteSink
from ridgeline.testing import ListInput


class Total(NamedTuple):
    country: str
    cents: int


class WrongSink(SqliteSink):
    """Writes as its name says: `wrong`."""

    def __init__(self, table, wrong):
        keys = {"wide_key": ("id", "key"), "narrow_key": ("text",)}
        super().__init__(table._replace(key=keys.get(wrong, table.key)))
        self.wrong = wrong
        self.prepares = wrong == "before_commit"

    def mark(self):
        return None if self.wrong == "repeats" else super().mark()

    def prepare(self, batches, mark):
        super().write(batches, mark)

    def write(self, batches, mark):
        if self.wrong == "last_part":
            batches = batches[:-1] or batches
        if self.wrong == "two_transactions":
            batches = self._context.unwritten(batches, self.mark())
            for batch in batches[:1]:
                self._first_row(batch)
            batches = [rest_of(batches[0]), *batches[1:]] if batches else []
        if self.wrong == "last_window":
            batches = batches if mark.window < 5 else [one for one in batches if one.window < mark.window]
        super().write(batches, mark)

    def _first_row(self, batch):
        self._settle(batch.schema)
        data = batch.data.slice(0, 1)
        self._write_batch(part_of(batch, data))


def part_of(batch, data):
    return Batch(
        window=batch.window,
        partition=batch.partition,
        rows=len(data),
        size=batch.size,
        read=lambda: (data, batch.schema),
    )


def rest_of(batch):
    return part_of(batch, batch.data.slice(1))


class WrongOutput(SqliteOutput):
    wrong: str

    def encode(self, batch):
        encoded = super().encode(batch)
        if self.wrong != "aborted":
            return encoded
        with closing(sqlite3.connect(self.path, timeout=30)) as database, database:
            database.execute("create table if not exists rows (id int, key int, text text, value real)")
            rows = [tuple(row.values()) for row in batch.to_pylist()]
            database.executemany("insert into rows values (?, ?, ?, ?)", rows)
        return encoded.slice(0, 0)

    def sink(self):
        return WrongSink(self.target, self.wrong)


FAULTS = ("before_commit", "last_part", "last_window", "repeats", "aborted", "two_transactions")


def application() -> Application:
    app = Application("planted")
    totals = app.read("totals", ListInput(Total, [("CH", 500)]))
    totals.write("right", SqliteOutput("shop.db", "totals", key="country"))
    for wrong in FAULTS:
        totals.write(wrong, WrongOutput("shop.db", "totals", wrong=wrong))
    for wrong in ("wide_key", "narrow_key"):
        totals.write(wrong, WrongOutput("shop.db", "totals", key="country", wrong=wrong))
    return app
