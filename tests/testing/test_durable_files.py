"""A flipped bit in any small file that a run leaves, a cut, or none: the next run is right, or an error."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, RidgelineError
from ridgeline.operators import FileOutput, QueueInput, QueueOutput, from_iterable
from ridgeline.testing import CollectorSink, run_local
from support.depth import deep

COUNT = 60
NAMES = re.compile("damaged|corrupt|is no |belongs to|holds|older copy|missing|gone|nothing of this run")
"""An error that says what is wrong with a file."""
SMALL_BYTES = 16_384


class Order(NamedTuple):
    number: int


class Total(NamedTuple):
    number: int
    total: int


class Running(Operator):
    """The sum of all numbers so far, which a row that is lost, doubled or changed changes."""

    data = InputPort(Order)
    out = OutputPort(Total)
    sums = KeyedState(int, default=0)

    @data.process
    def add(self, order: Order) -> None:
        self.sums["all"] += order.number
        self.out.emit(Total(order.number, self.sums["all"]))


def application(folder: Path, items: Iterator[Order]) -> Application:
    """Rows that are staged, files of a region behind a decoupled stream, and a queue."""
    app = Application("shop", window="1s")
    source = app.add_operator("orders", from_iterable(items, Order))
    running = app.add_operator("running", Running())
    archive = app.add_operator(
        "archive", FileOutput(path=str(folder / "archive"), format="jsonl", roll_seconds=0)
    )
    published = app.add_operator("published", QueueOutput(path=str(folder / "queue")))
    app.add_stream("orders", source.output, running.data, published.input, decoupled={running.data})
    app.add_stream("totals", running.out, archive.input)
    return app


def run(folder: Path, items: Iterator[Order], windows: int | None = None) -> None:
    run_local(
        application(folder, items),
        checkpoint=str(folder / "checkpoint"),
        windows=windows,
        properties={"orders.window_records": "7"},
    )


def rows(folder: Path) -> tuple[list[str], list[Order]]:
    """What the outputs have, the queue by a fresh reader."""
    files = sorted((folder / "archive").glob("*.jsonl"))
    app = Application("reader")
    app.read("queue", QueueInput(path=str(folder / "queue"), schema=Order)).write(
        "sink", CollectorSink(Order)
    )
    lines = [line for file in files for line in file.read_text().splitlines()]
    return sorted(lines), run_local(app, windows=30).collected("sink")


def small_files(folder: Path) -> list[Path]:
    """Those that the run reads again; what it has published is its readers'."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.parent.name != "archive"]
    return [path for path in found if 0 < path.stat().st_size <= SMALL_BYTES]


def test_no_damage_changes_what_comes_of_a_run(tmp_path: Path) -> None:
    """All rows are staged when the run is stopped: nothing outside gives those again that are unread."""
    folder, kept = tmp_path / "run", tmp_path / "kept"
    run(folder, map(Order, range(COUNT)), windows=4)
    shutil.copytree(folder, kept)
    run(folder, iter(()))
    expected = rows(folder)
    assert len(expected[0]) == len(expected[1]) == COUNT
    random = Random(47)
    for _ in range(deep(4)):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        files = small_files(folder)
        assert {".json", ".jsonl", ".rows", ".segment"} <= {path.suffix for path in files}, files
        path = random.choice(files)
        data = bytearray(path.read_bytes())
        bit = random.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        what = random.choice(("flip", "flip", "cut", "remove"))
        path.unlink() if what == "remove" else path.write_bytes(data[: bit // 8] if what == "cut" else data)
        try:
            run(folder, iter(()))
            found = rows(folder)
        except RidgelineError as error:
            found = str(error)
        where = path.relative_to(folder)
        assert found == expected or (isinstance(found, str) and NAMES.search(found)), (
            where,
            what,
            bit,
            found,
        )
