"""Keyed state in our segments beside LMDB, RocksDB and DuckDB: many keys held, 10,000 touched in a window.

Not one of `make bench`: it answers a question of design once (docs/decisions/0003-state-in-segments.md).
Install the stores by hand, then run it:

    pip install lmdb rocksdict duckdb
    python -m benchmarks.state_stores --keys 1000000 segments lmdb rocksdb rocksdb-versions duckdb

Two processes hold half of the keys each. In a window both read 5,000 values of 100 bytes, change them and
commit, synced. Then both end, and two new processes run one window more. Times are wall clock and CPU
seconds, the CPU of compactions included: compare the CPU where the machine does other work too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import queue
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple, Protocol

import numpy as np

PROCESSES = 2
TOUCHED = 10_000
VALUE_BYTES = 100
LOADED = 250_000
"""Keys that a process adds in a window of the load."""
KEPT_VERSIONS = 5
"""Windows whose state can be restored, where a store keeps versions."""
COUNTER = struct.Struct("<q")
SPAWN = multiprocessing.get_context("spawn")


class Store(Protocol):
    """One half of the keys, in one process."""

    def read(self, keys: list[int]) -> list[bytes]: ...
    def write(self, keys: list[int], values: list[bytes]) -> None: ...
    def commit(self) -> None: ...
    def settle(self) -> float:
        """Wait for compactions that run. Returns the CPU seconds of processes of its own so far."""
        ...

    def close(self) -> None: ...


# Ours -------------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    key: int


def _physical() -> Any:
    """A planned operator with one keyed state."""
    from ridgeline import Application, InputPort, KeyedState, Operator
    from ridgeline.plan.planner import plan_application
    from ridgeline.testing import ListInput

    class Keep(Operator):
        data = InputPort(Held, key="key")
        values = KeyedState(bytes)

        @data.process
        def keep(self, held: Held) -> None:
            self.values[held.key] = b""

    app = Application("state-stores")
    app.add_stream(
        "in", app.add_operator("in", ListInput(Held, [])).output, app.add_operator("keep", Keep()).data
    )
    plan = plan_application(app)
    return next(operator for operator in plan.physical.operators if operator.name == "keep")


def _compact(folder: str, version: tuple[str, ...], number: int) -> tuple[tuple[str, ...], float]:
    """What the compactor process does: the names of the compacted version, and the CPU seconds it took."""
    from ridgeline.engine.files.storage import LocalStorage
    from ridgeline.engine.state import state_files
    from ridgeline.engine.state.compaction import CompactionTask, StateCompactor
    from ridgeline.engine.state.segment_files import SegmentFiles

    began = time.process_time()
    operator = _physical()
    compactor = StateCompactor(SegmentFiles(LocalStorage(folder), "run"), [operator])
    stem = state_files.compacted_stem(version, operator.id, 1, number)
    return compactor.compact(CompactionTask(operator.id, version, stem)).names, time.process_time() - began


class Segments:
    """A cell, a delta a window, and compactions beside the windows, with the engine's own limits."""

    def __init__(self, folder: str) -> None:
        from ridgeline.engine.files.storage import LocalStorage
        from ridgeline.engine.state import state_files, versions
        from ridgeline.engine.state.segment_files import SegmentFiles
        from ridgeline.stram import compaction as limits

        self._limits = limits
        self._state_files, self._versions = state_files, versions
        self._folder = folder
        self._storage = LocalStorage(folder)
        self._storage.prepare([state_files.FOLDER])
        self._operator = _physical()
        self._cell = type(self._operator.operator).values.cell()
        self._files = SegmentFiles(self._storage, "run")
        self._note = Path(folder) / "version.json"  # in the product: the journal
        self._window, self._version, self._sizes = 0, (), {}
        if self._note.exists():
            self._window, version = json.loads(self._note.read_text())
            self._version = tuple(version)
            versions.restore(self._files, self._operator, {"values": self._cell}, self._version)
        self._cell.begin(self._window)
        self._pool = ProcessPoolExecutor(1, SPAWN, initializer=os.nice, initargs=(5,))
        self._running: tuple[tuple[str, ...], Future[Any]] | None = None
        self._compactions, self._cpu = 0, 0.0

    def read(self, keys: list[int]) -> list[bytes]:
        return self._cell.get_many(keys).tolist()

    def write(self, keys: list[int], values: list[bytes]) -> None:
        self._cell.put_many(keys, values)

    def commit(self) -> None:
        name = self._state_files.file_name(self._window, 0, 1, 0, "t")
        change = {self._operator.state_key: {"values": self._cell.changes()}}
        data, sizes = self._state_files.encode(name, change)
        self._state_files.write(self._storage, name, data)
        self._sizes[name] = sizes[self._operator.state_key]
        self._version = (*self._version, name)
        self._install()
        self._window += 1
        self._cell.begin(self._window)

    def _install(self) -> None:
        deltas = [name for name in self._version if not self._state_files.is_compacted(name)]
        waiting = sum(self._sizes.get(name, 0) for name in deltas)
        if self._running is not None and (self._running[1].done() or waiting > self._limits.LIMIT_BYTES):
            replaced, future = self._running
            names, cpu = future.result()
            self._running = None
            self._cpu += cpu
            self._version = (*names, *self._version[len(replaced) :])
            self._versions.restore(self._files, self._operator, {"values": self._cell}, self._version)
            self._state_files.delete(self._storage, set(replaced) - set(names))
        elif self._running is None and (waiting > self._limits.COMPACT_BYTES or len(deltas) >= 16):
            self._compactions += 1
            future = self._pool.submit(_compact, self._folder, self._version, self._compactions)
            self._running = self._version, future

    def settle(self) -> float:
        if self._running is not None:
            self._running[1].result()
            self._install()
        return self._cpu

    def close(self) -> None:
        self._pool.shutdown()
        self._note.write_text(json.dumps([self._window, self._version]))


# The others -------------------------------------------------------------------------------------------------


def _packed(keys: list[int]) -> list[bytes]:
    return [key.to_bytes(8, "big") for key in keys]


class Lmdb:
    """One transaction a window. It keeps one version: the last one."""

    def __init__(self, folder: str) -> None:
        import lmdb

        self._environment = lmdb.open(folder, map_size=1 << 35)
        self._transaction = self._environment.begin(write=True)

    def read(self, keys: list[int]) -> list[bytes]:
        cursor = self._transaction.cursor()
        return [value for _, value in cursor.getmulti(_packed(keys))]

    def write(self, keys: list[int], values: list[bytes]) -> None:
        cursor = self._transaction.cursor()
        cursor.putmulti(list(zip(_packed(keys), values, strict=True)))

    def commit(self) -> None:
        self._transaction.commit()
        self._transaction = self._environment.begin(write=True)

    def settle(self) -> float:
        return 0.0

    def close(self) -> None:
        self._transaction.abort()
        self._environment.close()


class RocksDb:
    """One batch a window, synced in the write-ahead log. It keeps one version: the last one."""

    def __init__(self, folder: str) -> None:
        import rocksdict

        self._module, self._folder = rocksdict, folder
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(create_if_missing=True)
        self._store = rocksdict.Rdict(f"{folder}/store", options)
        self._synced = rocksdict.WriteOptions()
        self._synced.sync = True
        self._batch = rocksdict.WriteBatch(raw_mode=True)

    def read(self, keys: list[int]) -> list[bytes]:
        return self._store[_packed(keys)]

    def write(self, keys: list[int], values: list[bytes]) -> None:
        for key, value in zip(_packed(keys), values, strict=True):
            self._batch.put(key, value)

    def commit(self) -> None:
        self._store.write(self._batch, self._synced)
        self._batch = self._module.WriteBatch(raw_mode=True)

    def settle(self) -> float:
        return 0.0

    def close(self) -> None:
        self._store.close()


class RocksDbVersions(RocksDb):
    """And a checkpoint of hard links a window, so that another process can start from the window before."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._windows = len(list(Path(folder).glob("version-*")))

    def commit(self) -> None:
        super().commit()
        self._module.Checkpoint(self._store).create_checkpoint(f"{self._folder}/version-{self._windows}")
        shutil.rmtree(f"{self._folder}/version-{self._windows - KEPT_VERSIONS}", ignore_errors=True)
        self._windows += 1


class DuckDb:
    """One transaction a window, arrays in and out. It keeps one version: the last one."""

    def __init__(self, folder: str) -> None:
        import duckdb

        self._connection = duckdb.connect(f"{folder}/store.duckdb", config={"threads": 1})
        self._run("create table if not exists held (key bigint primary key, value blob)")
        self._connection.begin()
        self._loading = self._run("select count(*) from held")[0][0] == 0

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement).fetchall()

    def _register(self, columns: dict[str, Any]) -> None:
        import pyarrow as pa

        self._connection.register("given", pa.table(columns))

    def read(self, keys: list[int]) -> list[bytes]:
        self._loading = False
        self._register({"key": keys, "row": range(len(keys))})
        found = self._connection.sql("select value from held join given using (key) order by row")
        return found.to_arrow_table()["value"].to_pylist()

    def write(self, keys: list[int], values: list[bytes]) -> None:
        self._register({"key": keys, "value": values})
        if self._loading:
            self._run("insert into held select key, value from given")
        else:
            self._run("update held set value = given.value from given where held.key = given.key")

    def commit(self) -> None:
        self._connection.commit()
        self._connection.begin()

    def settle(self) -> float:
        return 0.0

    def close(self) -> None:
        self._connection.rollback()
        self._connection.close()


STORES: dict[str, Callable[[str], Store]] = {
    "segments": Segments,
    "lmdb": Lmdb,
    "rocksdb": RocksDb,
    "rocksdb-versions": RocksDbVersions,
    "duckdb": DuckDb,
}


def _import(store: str) -> None:
    """Import what a store needs: no part of the times."""
    if store == "segments":
        from ridgeline.stram import compaction  # noqa: F401

        _physical()
    else:
        importlib.import_module("pyarrow")
        importlib.import_module({"lmdb": "lmdb", "duckdb": "duckdb"}.get(store, "rocksdict"))


# One process ------------------------------------------------------------------------------------------------


def _scattered(numbers: Any, share: int) -> list[int]:
    return ((numbers * PROCESSES + share) * 0x9E3779B1).tolist()


def _hold(store: str, folder: str, share: int, keys: int, windows: int, barrier: Any, results: Any) -> None:
    """Load `keys` keys where there are none, then run windows, in step with the other process."""
    _import(store)
    barrier.wait()
    began, cpu = time.perf_counter(), time.process_time()
    held = STORES[store](folder)
    random = np.random.default_rng([share, windows])
    figures: dict[str, Any] = {"open_seconds": time.perf_counter() - began}
    for start in range(0, keys if windows > 1 else 0, LOADED):
        numbers = np.arange(start, min(start + LOADED, keys))
        padding = random.bytes((VALUE_BYTES - COUNTER.size) * len(numbers))
        size = VALUE_BYTES - COUNTER.size
        parts = [COUNTER.pack(0) + padding[at : at + size] for at in range(0, len(padding), size)]
        held.write(_scattered(numbers, share), parts)
        held.commit()
    figures["load_seconds"] = time.perf_counter() - began
    of_load = held.settle()
    figures["load_cpu_seconds"] = time.process_time() - cpu + of_load
    cpu = time.process_time()
    times, commits = [], []
    for _ in range(windows):
        touched = _scattered(np.unique(random.integers(0, keys, TOUCHED // PROCESSES)), share)
        barrier.wait()
        window = time.perf_counter()
        values = [
            COUNTER.pack(COUNTER.unpack_from(value)[0] + 1) + value[COUNTER.size :]
            for value in held.read(touched)
        ]
        assert len(values) == len(touched)
        held.write(touched, values)
        commit = time.perf_counter()
        held.commit()
        times.append(time.perf_counter() - window)
        commits.append(time.perf_counter() - commit)
    figures["first_window_seconds"] = time.perf_counter() - began
    figures["memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures["private_bytes"] = _private_bytes()
    figures["compaction_cpu_seconds"] = held.settle() - of_load
    held.close()
    figures["windows_cpu_seconds"] = time.process_time() - cpu
    results.put({**figures, "windows": times, "commits": commits})


def _private_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))


def _both(store: str, folders: list[str], keys: int, windows: int) -> list[dict[str, Any]]:
    barrier, results = SPAWN.Barrier(PROCESSES), SPAWN.Queue()
    processes = [
        SPAWN.Process(target=_hold, args=(store, folder, share, keys // PROCESSES, windows, barrier, results))
        for share, folder in enumerate(folders)
    ]
    for process in processes:
        process.start()
    found = [_result(results, processes) for _ in processes]
    for process in processes:
        process.join()
    return found


def _result(results: Any, processes: list[Any]) -> dict[str, Any]:
    while True:
        try:
            return results.get(timeout=1)
        except queue.Empty:
            if any(process.exitcode for process in processes):
                for process in processes:
                    process.kill()
                raise


def measure(store: str, keys: int, windows: int, where: str) -> dict[str, Any]:
    """The figures of one store, in a folder of its own below `where`."""
    root = Path(tempfile.mkdtemp(prefix=f"{store}-", dir=where))
    try:
        folders = [str(root / str(share)) for share in range(PROCESSES)]
        for folder in folders:
            Path(folder).mkdir(mode=0o700)
        ran = _both(store, folders, keys, windows)
        size = sum(file.stat().st_blocks * 512 for file in _files(root))
        again = _both(store, folders, keys, 1)
    finally:
        shutil.rmtree(root)
    slower = [max(pair) for pair in zip(*(one["windows"] for one in ran), strict=True)]
    commits = [max(pair) for pair in zip(*(one["commits"] for one in ran), strict=True)]
    cpu = sum(one["windows_cpu_seconds"] + one["compaction_cpu_seconds"] for one in ran)
    return {
        "store": store,
        "keys": keys,
        "load s": max(one["load_seconds"] for one in ran),
        "load CPU s": sum(one["load_cpu_seconds"] for one in ran),
        "window ms": 1e3 * median(slower),
        "p99 ms": 1e3 * quantiles(slower, n=100)[98],
        "commit ms": 1e3 * median(commits),
        "CPU ms a window": 1e3 * cpu / windows,
        "private MB a process": max(one["private_bytes"] for one in ran) / 1e6,
        "disk MB": size / 1e6,
        "restart s": max(one["first_window_seconds"] for one in again),
    }


def _files(root: Path) -> list[Path]:
    """Every file once: hard links are one."""
    found = [file for file in root.rglob("*") if file.is_file()]
    return list({(file.stat().st_dev, file.stat().st_ino): file for file in found}.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"which; none: all of {', '.join(STORES)}")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="a folder on the disk to measure")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.stores) - set(STORES)):
        parser.error(f"no such store; got `{unknown[0]}`; there are {', '.join(STORES)}")
    for store in arguments.stores or STORES:
        load = os.getloadavg()[0]
        found = measure(store, arguments.keys, arguments.windows, arguments.folder)
        rounded = {
            name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()
        }
        print(json.dumps({**rounded, "load before": round(load, 1)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
