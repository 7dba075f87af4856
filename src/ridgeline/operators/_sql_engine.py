"""DuckDB in a process of its own, for one query: Arrow in, Arrow out, within limits."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from ridgeline.api.columns.arrow_stream import arrow_stream
from ridgeline.api.columns.casting import cast_exactly
from ridgeline.api.errors import RidgelineError
from ridgeline.operators._sql_child import read_part, write_parts

_SCRIPT = Path(__file__).with_name("_sql_child.py")
_FEW_THREADS = {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_GRACE_SECONDS = 1.0
"""Time after its timeout in which a query must report that it was interrupted."""
_START_SECONDS = 20.0
_LONGEST_WORDS = 300


class QueryError(RidgelineError):
    """The SQL of a query cannot be run, or was not to the end; the text is DuckDB's, or says which limit."""


class Answer(NamedTuple):
    """`table`: the rows. `more`: there were more. `tables`: which ones the SQL names, if that was asked."""

    table: pa.Table
    more: bool
    tables: list[str]


class SqlEngine:
    """Runs SQL over Arrow tables, and nothing else: no files, no other databases, no extensions, no settings.

    A process of its own does it, started with the first call. It may take `memory_mb`, and return `rows`. SQL
    that takes longer than the seconds of its call is interrupted, and the process ended if that is not
    enough. Not for several threads.
    """

    def __init__(self, memory_mb: int = 256, rows: int = 10_000) -> None:
        self._memory_mb = memory_mb
        self._rows = rows
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, sql: str, tables: Mapping[str, pa.Table], seconds: float, *, names: bool = False) -> Answer:
        """The rows that the SQL makes of the tables. Raises QueryError.

        `names`: also say which tables it names; columns that it names must be there, rows need not.
        """
        tables = {name: for_duckdb(table, name) for name, table in tables.items()}
        fresh = self._process is None
        process = self._process = self._process or self._start()
        expired = threading.Event()

        def end() -> None:
            expired.set()
            process.kill()

        # a backstop: the process interrupts itself in time, unless it hangs in native code
        timer = threading.Timer(seconds + _GRACE_SECONDS + (_START_SECONDS if fresh else 0), end)
        timer.daemon = True
        timer.start()
        try:
            head, data = self._ask(process, sql, tables, seconds, names=names)
        except (OSError, EOFError) as error:
            code = _code_of(process)
            said = _last_words(process) if code is not None else ""
            self.close()
            if not expired.is_set():
                ended = f"code {code} (`{said}`)" if said else f"code {code}"
                why = f"it took more than {self._memory_mb} MB, or DuckDB crashed"
                raise QueryError(f"its process has ended with {ended}: {why}") from error
            raise QueryError(f"it takes longer than {seconds:g} s") from error
        finally:
            timer.cancel()
        if "error" in head:
            raise QueryError(str(head["error"]))
        return Answer(
            from_duckdb(pa.ipc.open_stream(data).read_all()), bool(head["more"]), list(head["tables"])
        )

    def close(self) -> None:
        """End the process. May be called again."""
        process, self._process = self._process, None
        if process is None:
            return
        # its answer is not waited for; `wait` at the end reaps it, else a zombie stays
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()

    def __del__(self) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process. Raises QueryError."""
        found = [importlib.util.find_spec(name) for name in ("duckdb", "pyarrow")]
        folders = [str(Path(one.origin).parents[1]) for one in found if one is not None and one.origin]
        if found[0] is None:
            raise QueryError("queries need DuckDB, which is not installed here; install `ridgeline[query]`")
        path = os.pathsep.join(dict.fromkeys(folders))  # and nothing that may hide its modules
        # -P: the caller's folder may hold a `json.py`
        command = [sys.executable, "-P", str(_SCRIPT), str(self._memory_mb), str(self._rows)]
        environment = {"PYTHONPATH": path, "PATH": os.environ.get("PATH", ""), **_FEW_THREADS}
        try:
            return subprocess.Popen(  # noqa: S603  this Python, and our own script
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,  # Ctrl-C is not for it
            )
        except OSError as error:
            raise QueryError(f"the process of a query cannot be started: {error.strerror}") from error

    @staticmethod
    def _ask(
        process: subprocess.Popen[bytes],
        sql: str,
        tables: Mapping[str, pa.Table],
        seconds: float,
        *,
        names: bool,
    ) -> tuple[dict[str, Any], bytes]:
        """Send a question and wait for the answer. Raises OSError, EOFError if the process ends."""
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018  they are pipes
        head = {"sql": sql, "tables": list(tables), "seconds": seconds, "names": names}
        write_parts(process.stdin, json.dumps(head).encode(), *map(to_ipc, tables.values()))
        return json.loads(read_part(process.stdout)), read_part(process.stdout)


def _code_of(process: subprocess.Popen[bytes]) -> int | None:
    """With what a process ended that ends by itself; None if it has not."""
    try:
        return process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """The last line that a process which has ended has written where errors go."""
    assert process.stderr is not None  # noqa: S101  it is a pipe
    lines = process.stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:_LONGEST_WORDS] if lines else ""


def to_ipc(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    return bytes(arrow_stream(table.to_batches(), table.schema).to_pybytes())


def for_duckdb(table: pa.Table, name: str) -> pa.Table:
    """The same values in types that DuckDB does not change. Raises QueryError if it has none.

    It cuts lengths of time to microseconds, and gives them back as nanoseconds that overflow after 292 years.
    """
    for place, field in enumerate(table.schema):
        kind = _type_of_duckdb(field.type)
        if kind == field.type and "duration" not in str(kind):
            continue
        column = table.column(place)
        whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        try:
            made = cast_exactly(whole, kind)
            cast_exactly(made, _type_of_duckdb(kind, "ns"))
        except pa.ArrowException as error:
            raise QueryError(f"DuckDB cannot hold the values of `{name}.{field.name}`: {error}") from error
        table = table.set_column(place, field.name, made)
    return table


def _type_of_duckdb(kind: Any, unit: str = "us") -> pa.DataType:
    """The type with durations of a unit, and floats that DuckDB has, at every depth."""
    types = pa.types
    if types.is_duration(kind):
        return pa.duration(unit)
    if types.is_float16(kind):
        return pa.float32()
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _type_of_duckdb(field.type, unit)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_type_of_duckdb(kind.key_type, unit), _type_of_duckdb(kind.item_type, unit))
    return pa.list_(_type_of_duckdb(kind.value_type, unit)) if types.is_list(kind) else kind


def from_duckdb(table: pa.Table) -> pa.Table:
    """The rows, with lengths of time as such where DuckDB's intervals have no months."""
    for place, field in enumerate(table.schema):
        if field.type != pa.month_day_nano_interval():
            continue
        values = table.column(place).to_pylist()
        if any(value is not None and (value.months or value.nanoseconds % 1_000) for value in values):
            continue
        made = [
            None if value is None else timedelta(days=value.days, microseconds=value.nanoseconds // 1_000)
            for value in values
        ]
        table = table.set_column(place, field.name, pa.array(made, pa.duration("us")))
    return table
