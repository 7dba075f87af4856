"""One application with inputs of all kinds, whose numbered rows a tally counts by key.

A number says how many rows there are, which grows: all inputs give the rows below it.
"""

import json
import os
import sqlite3
import threading
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ridgeline import (
    Application,
    Cache,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    PushInput,
    State,
)
from ridgeline.connectors.kafka import KafkaInput
from ridgeline.connectors.postgres import PostgresChanges, PostgresInput
from ridgeline.connectors.sql import SqliteInput
from ridgeline.operators import FileInput, FileOutput, FileReplayInput, Map, QueueInput, QueueOutput
from ridgeline.operators import from_iterable as iterable

KEYS, REPLAYED = 5, 300
SERVERS = os.environ.get("ALL_INPUTS_KAFKA", "")
DSN = os.environ.get("ALL_INPUTS_POSTGRES", "")
ONCE = "once"
"""This input gives each row once: one that it has not written yet is lost with a kill."""
KINDS = ["generated", "pushed", "replayed", "files", "sqlite", "repeated", ONCE]
KINDS += ["kafka"] * bool(SERVERS) + ["table", "changes"] * bool(DSN)


class Row(NamedTuple):
    key: int
    number: int


class Counted(NamedTuple):
    source: str
    key: int
    number: int
    count: int


def row(number):
    return Row(number % KEYS, number)


def given(folder):
    """How many rows there are now."""
    path = Path(folder, "given")
    return int(path.read_text()) if path.exists() else 0


def replace(path, text):
    """Write a file that others read meanwhile."""
    new = Path(f"{path}.new")
    new.write_text(text)
    new.rename(path)


class Generated(InputOperator):
    """Keeps its position."""

    output = OutputPort(Row)
    folder: str
    position = State(0)

    def emit_tuples(self):
        end = min(given(self.folder), self.position + 7)
        for number in range(self.position, end):
            self.output.emit(row(number))
        self.position = end


class Pushed(PushInput):
    """A thread pushes what follows its position."""

    output = OutputPort(Row)
    folder: str
    position = State(0)
    arrived = Cache(deque)

    def setup(self, context):
        self.arrived, self.over = deque(), threading.Event()
        self.thread = threading.Thread(target=self.take, args=(self.position,), daemon=True)
        self.thread.start()

    def take(self, number):
        while not self.over.wait(0.005):
            end = max(number, min(given(self.folder), number + 5))
            self.arrived.extend(range(number, end))
            number = end
            self.wake()

    def emit_tuples(self):
        for _ in range(min(5, len(self.arrived))):
            self.position = self.arrived.popleft() + 1
            self.output.emit(row(self.position - 1))

    def teardown(self):
        self.over.set()
        self.thread.join()


def following(folder, taken=None):
    """All rows as they come; with a file for the number of the next one, those that were not given yet."""
    number = int(taken.read_text()) if taken and taken.exists() else 0
    while True:
        for one in range(number, given(folder)):
            number = one + 1
            if taken:
                replace(taken, str(number))
            yield row(one)
        time.sleep(0.005)


class Tally(Operator):
    """Counts the rows of each source and key."""

    first = InputPort(Row, key="key", optional=True)
    second = InputPort(Row, key="key", optional=True)
    third = InputPort(Row, key="key", optional=True)
    counted = OutputPort(Counted)
    sources: list[str]
    counts = KeyedState(dict, default={})

    def count(self, source, one):
        known = dict(self.counts[one.key])
        known[source] = known.get(source, 0) + 1
        self.counts[one.key] = known
        self.counted.emit(Counted(source, one.key, one.number, known[source]))

    @first.process
    def of_first(self, one):
        self.count(self.sources[0], one)

    @second.process
    def of_second(self, one):
        self.count(self.sources[1], one)

    @third.process
    def of_third(self, one):
        self.count(self.sources[2], one)


def name_of(folder):
    """The name of its topic and its table."""
    return Path(folder).name.replace("-", "_").lower()


def source(kind, folder):
    """The input of a kind."""
    name = name_of(folder)
    made = {
        "generated": lambda: Generated(folder=folder),
        "pushed": lambda: Pushed(folder=folder),
        "replayed": lambda: FileReplayInput(
            path=f"{folder}/replayed.jsonl", schema=Row, format="jsonl", rows_per_window=20
        ),
        "files": lambda: FileInput(f"{folder}/files/*.jsonl", Row, settle=0, discover_every=0.01),
        "sqlite": lambda: SqliteInput("rows", path=f"{folder}/rows.db", schema=Row, column="number"),
        "repeated": lambda: iterable(lambda: following(folder), Row),
        ONCE: lambda: iterable(following(folder, Path(folder, "taken")), Row),
        "kafka": lambda: KafkaInput(name, servers=SERVERS, schema=Row),
        "table": lambda: PostgresInput(name, dsn=DSN, schema=Row, column="number"),
        "changes": lambda: PostgresChanges(name, dsn=DSN, schema=Row, slot=name, publication=name),
    }
    return made[kind]()


def application(folder: str) -> Application:
    """As the file `shape.json` in the folder says."""
    shape = json.loads(Path(folder, "shape.json").read_text())
    app = Application("all", window="5ms", **shape["attributes"])
    tally = app.add_operator("tally", Tally(sources=shape["kinds"]), partitions=shape["partitions"])
    for kind, port in zip(shape["kinds"], (tally.first, tally.second, tally.third), strict=False):
        output = app.add_operator(kind, source(kind, folder)).output
        if kind == "changes":  # they have a column of deletions
            plain = app.add_operator("plain", Map(lambda one: Row(one["key"], one["number"]), schema=Row))
            app.add_stream("changes", output, plain.data)
            output = plain.output
        apart = {port} if kind in shape["decoupled"] else set()
        app.add_stream(f"{kind}_rows", output, port, decoupled=apart, keep=shape["keep"])
    files = app.add_operator("out", FileOutput(f"{folder}/out", format="jsonl", roll_seconds=shape["roll"]))
    sinks = [files.input]
    if shape["queue"]:
        sinks.append(app.add_operator("queue", QueueOutput(path=f"{folder}/queue")).input)
    apart = {files.input} if "out" in shape["decoupled"] else set()
    app.add_stream("counted", tally.counted, *sinks, decoupled=apart, keep=shape["keep"])
    return app


def reader(folder: str) -> Application:
    """Reads what the other one puts into its queue."""
    app = Application("reader", window="5ms")
    rows = app.read("queue", QueueInput(f"{folder}/queue", Counted, when_missing="wait"))
    rows.write("read", FileOutput(f"{folder}/read", format="jsonl", roll_seconds=0))
    return app


def lines(rows):
    return "".join(json.dumps(one._asdict()) + "\n" for one in rows)


def prepare(folder, shape):
    """Make what the inputs read; nothing is in it yet."""
    (folder / "shape.json").write_text(json.dumps(shape))
    (folder / "files").mkdir()
    (folder / "replayed.jsonl").write_text(lines(map(row, range(REPLAYED))))
    with sqlite3.connect(folder / "rows.db") as connection:
        connection.execute("create table rows (number integer primary key, key int)")
    if {"table", "changes"}.intersection(shape["kinds"]):
        with psycopg.connect(DSN) as connection:
            slots = "from pg_replication_slots where not active and database = current_database()"
            connection.execute(f"select pg_drop_replication_slot(slot_name) {slots}")
            connection.execute(f"create table {name_of(folder)} (number bigint primary key, key int)")
    if "kafka" in shape["kinds"]:
        name, admin = name_of(folder), AdminClient({"bootstrap.servers": SERVERS})
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)


def give(folder, shape, count):
    """Let there be so many rows more, wherever inputs look."""
    first, kinds = given(folder), set(shape["kinds"])
    rows = [row(number) for number in range(first, first + count)]
    replace(folder / "files" / f"{first:06d}.jsonl", lines(rows))
    with sqlite3.connect(folder / "rows.db", timeout=60) as connection:
        connection.executemany("insert into rows (key, number) values (?, ?)", rows)
    if {"table", "changes"} & kinds:
        with psycopg.connect(DSN) as connection:
            insert = f"insert into {name_of(folder)} (key, number) values (%s, %s)"
            connection.cursor().executemany(insert, rows)
    if "kafka" in kinds:
        producer = Producer({"bootstrap.servers": SERVERS, "log_level": 0, "linger.ms": 0})
        for one in rows:
            producer.produce(name_of(folder), key=str(one.key), value=lines([one]).encode())
        assert producer.flush(60) == 0
    replace(folder / "given", str(first + count))
