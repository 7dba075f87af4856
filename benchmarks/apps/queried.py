"""Prices at a steady rate, that queries are asked about: `python -m benchmarks.apps.queried JOB FILE`.

`JOB` is JSON of a `Job`. What came of it is written to `FILE`: window times and processor seconds of each
phase, and what became of the queries.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.errors import RidgelineError
from ridgeline.operators import ConsoleOutput
from ridgeline.service.handle import Handle

SLOTS, SYMBOLS = 4, 500
BEFORE, TEN, AFTER_TEN, AFTER_BAD = "before", "ten queries", "after ten queries", "after bad queries"
_TICKS = os.sysconf("SC_CLK_TCK")
GOOD = (
    "select symbol, avg(price) as average from prices group by symbol",
    "select symbol, count(*) as n from prices group by symbol order by n desc limit 10",
    "select max(price) as highest, min(price) as lowest from prices",
    "select * from prices where price > 199",
    "select symbol, quantile_cont(price, 0.99) as p99 from prices group by symbol",
    "select symbol, sum(price * size) / sum(size) as vwap from prices group by symbol",
    "select count(distinct symbol) as n from prices",
    "select symbol, rank() over (partition by symbol order by price) as r from prices qualify r = 1",
    "select a.symbol, count(*) as n from prices a join totals b using (symbol) group by 1",
    "select symbol, max(total) as total from totals group by symbol",
)
FAILS = "select cast(symbol as integer) as number from prices"
NEVER_ENDS = "select count(*) as n from prices a, range(1000000000000) b"


@dataclass(frozen=True)
class Job:
    """How long each phase is, and the tuples of a window of 100 ms."""

    seconds: float
    size: int = 5_000


class Price(NamedTuple):
    symbol: str
    price: float
    size: int


class Total(NamedTuple):
    symbol: str
    total: int


class Prices(InputOperator):
    """A batch of prices in each window."""

    output = OutputPort(Price)
    size: int
    window = State(0)

    def emit_tuples(self) -> None:
        random = np.random.default_rng(self.window)
        symbols = pa.array([f"S{number}" for number in range(SYMBOLS)])
        batch = {
            "symbol": symbols.take(pa.array(random.integers(0, SYMBOLS, self.size))),
            "price": random.random(self.size) * 100 + 100,
            "size": random.integers(1, 100, self.size),
        }
        self.output.emit_batch(pa.table(batch))
        self.window += 1


class Volume(Operator):
    """The volume of each symbol so far, of those in the window."""

    prices = InputPort(Price, key="symbol")
    totals = OutputPort(Total)
    volumes = KeyedState(int, default=0)

    @prices.process_batch
    def add(self, batch: pa.RecordBatch) -> None:
        sums = pa.table([batch["symbol"], batch["size"]], ["symbol", "size"])
        for row in sums.group_by("symbol").aggregate([("size", "sum")]).to_pylist():
            self.volumes[row["symbol"]] += row["size_sum"]
            self.totals.emit(Total(row["symbol"], self.volumes[row["symbol"]]))


def application(job: Job) -> Application:
    """Prices, their volumes by two partitions, and who looks at those."""
    app = Application("queried", window="100ms")
    prices = app.add_operator("prices", Prices(size=job.size))
    volume = app.add_operator("volume", Volume(), partitions=2)
    shown = app.add_operator("shown", ConsoleOutput(limit=0))
    app.add_stream("prices", prices.output, volume.prices)
    app.add_stream("totals", volume.totals, shown.input)
    return app


def cpu_seconds() -> float:
    """What this process, its children and theirs have taken of processors."""
    parents, taken = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)] = int(fields[1])
            taken[int(folder.name)] = sum(map(int, fields[11:15]))
    mine, found = {os.getpid()}, 0
    while len(mine) != found:
        found = len(mine)
        mine |= {one for one, parent in parents.items() if parent in mine}
    return sum(taken.get(one, 0) for one in mine) / _TICKS


def windows_of(handle: Handle, seconds: float) -> list[float]:
    """The times of the windows of the next seconds."""
    began = time.time()
    times: dict[int, float] = {}
    while time.time() - began < seconds:
        time.sleep(0.5)
        for row in handle.windows().to_pylist():
            if row["triggered_at"].timestamp() >= began:
                times[row["window_id"]] = row["latency_ms"] / 1000
    return list(times.values())


def _phase(handle: Handle, seconds: float) -> dict[str, Any]:
    """Watch windows for so long."""
    before, began = cpu_seconds(), time.time()
    windows = windows_of(handle, seconds)
    return {"windows": windows, "cpu": (cpu_seconds() - before) / (time.time() - began)}


def _asked(handle: Handle, sql: str, until: Callable[[], bool]) -> dict[str, Any]:
    """Read a query's results until it is over; what they cost."""
    rows = tables = 0
    cost: dict[str, float] = {}
    try:
        for table in handle.query(sql, every="500ms"):
            rows, tables = rows + table.num_rows, tables + 1
            for name, value in (table.schema.metadata or {}).items():
                with contextlib.suppress(ValueError):
                    cost[name.decode()] = float(value)
            if until():
                break
    except RidgelineError as error:
        return {"sql": sql, "tables": tables, "error": str(error)}
    return {"sql": sql, "tables": tables, "rows": rows, "last": cost}


def _settle(handle: Handle, operators: int) -> Iterator[float]:
    """Wait until all queries are gone."""
    began = time.time()
    while len(handle.latency().to_pylist()) > operators:
        time.sleep(0.2)
        yield time.time() - began


def run(job: Job) -> dict[str, Any]:
    """All phases, one after the other."""
    phases: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(GOOD)) as pool:
        checkpoint = str(Path(folder, "checkpoint"))
        with application(job).start(f"local[{SLOTS}]", checkpoint=checkpoint, quiet=True) as handle:
            handle.wait_until_started()
            _phase(handle, job.seconds / 2)  # warm-up
            operators = len(handle.latency().to_pylist())
            phases[BEFORE] = _phase(handle, job.seconds)
            ended: list[bool] = []
            asked = [pool.submit(_asked, handle, sql, lambda: bool(ended)) for sql in GOOD]
            _phase(handle, job.seconds / 2)
            phases[TEN] = _phase(handle, job.seconds)
            ended.append(True)
            good = [one.result(60) for one in asked]
            list(_settle(handle, operators))
            _phase(handle, job.seconds / 2)
            phases[AFTER_TEN] = _phase(handle, job.seconds)
            bad = [_asked(handle, sql, lambda: False) for sql in (FAILS, NEVER_ENDS)]
            abandoned = handle.query(GOOD[0], every="500ms")
            next(abandoned)
            gone = [0.0, *_settle(handle, operators)][-1]
            phases[AFTER_BAD] = _phase(handle, job.seconds)
            state = str(handle.state)
            abandoned.close()
    return {"job": asdict(job), "state": state, "phases": phases, "good": good, "bad": bad, "gone": gone}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(run(Job(**json.loads(sys.argv[1])))), encoding="utf-8")
