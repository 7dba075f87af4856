"""What `checkpoint export-state` and `import-state` cost beside a bare read and write of the same Parquet.

`python -m benchmarks.state_tables [KEYS ...]` prints keys a second, and the memory and processor time of each
process. Memory is that of the process alone, without mapped files, sampled from outside.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

APPLICATION = """
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.testing import run_local


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    numbers = OutputPort(Number)
    count = State(0)

    def emit_tuples(self) -> None:
        self.numbers.emit(Number(self.count))
        self.count += 1


class Totals(Operator):
    numbers = InputPort(Number, key="value")
    sums = KeyedState(int, key=int, default=0)

    @numbers.process
    def add(self, number: Number) -> None:
        self.sums[number.value] += 1


def application() -> Application:
    app = Application("tables")
    numbers = app.add_operator("numbers", Numbers())
    app.add_stream("numbers", numbers.numbers, app.add_operator("totals", Totals(), partitions=2).numbers)
    return app
"""
_BEGIN = "import app; app.run_local(app.application(), windows=3, checkpoint='state')"
_BARE_READ = "import pyarrow.parquet as p; [b for b in p.ParquetFile(r'{0}').iter_batches(32768)]"
_BARE_WRITE = (
    "import pyarrow.parquet as p; f = p.ParquetFile(r'{0}'); "
    "w = p.ParquetWriter(r'{0}.again', f.schema_arrow); "
    "[w.write_batch(b) for b in f.iter_batches(32768)]; w.close()"
)
_ROWS = 100_000


class Cost(NamedTuple):
    """The seconds that a process has taken, those of processors, and the most memory of its own, in MB."""

    seconds: float
    cpu_seconds: float
    megabytes: float


def measured(words: Sequence[str], folder: Path) -> Cost:
    """Run a command in a folder. Raises RuntimeError if it fails."""
    began, most, before = time.perf_counter(), 0, resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
            most = max(most, *map(int, found), 0)
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        assert process.stdout is not None
        text = process.stdout.read().decode()
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}: {text[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(round(seconds, 2), round(cpu, 2), round(most / 1024, 1))


def python(code: str) -> list[str]:
    """The command that runs code."""
    return [sys.executable, "-c", code]


def ridgeline(*words: str) -> list[str]:
    """The command of Ridgeline about checkpoints."""
    return [sys.executable, "-m", "ridgeline", "checkpoint", *words]


def prepare(folder: Path) -> Path:
    """A checkpoint `state`, its application `app.py`, and what was exported; returns the file of its keys."""
    folder.chmod(0o700)
    (folder / "app.py").write_text(APPLICATION)
    subprocess.run(python(_BEGIN), cwd=folder, check=True)
    subprocess.run(
        ridgeline("export-state", "state", "--operator", "totals", "--out", "out"), cwd=folder, check=True
    )
    return folder / "out" / "totals.sums.parquet"


def write_keys(path: Path, keys: int) -> None:
    """Write a table of so many keys in the place of what was exported."""
    schema = pq.read_schema(path)
    order = np.random.default_rng(1).permutation(keys)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for begin in range(0, keys, _ROWS):
            part = pa.array(order[begin : begin + _ROWS], pa.int64())
            columns = {"partition": pa.array(np.zeros(len(part), np.int32)), "key": part, "value": part}
            writer.write_batch(
                pa.RecordBatch.from_arrays([columns[one] for one in schema.names], schema=schema)
            )


def compare(keys: int) -> dict[str, Cost]:
    """What each way costs with so many keys."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = prepare(folder)
        write_keys(path, keys)
        return {
            "bare read": measured(python(_BARE_READ.format(path)), folder),
            "bare read and write": measured(python(_BARE_WRITE.format(path)), folder),
            "import-state": measured(ridgeline("import-state", "state", "app.py", "--from", "out"), folder),
            "export-state": measured(
                ridgeline("export-state", "state", "--operator", "totals", "--out", "again"), folder
            ),
        }


def main(*given: str) -> None:
    """Print the comparison for each number of keys."""
    for keys in map(int, given or ("250000", "1000000")):
        for name, cost in compare(keys).items():
            found = {"keys": keys, "what": name, "keys_s": round(keys / cost.seconds), **cost._asdict()}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
