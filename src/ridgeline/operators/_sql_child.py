"""The process in which DuckDB runs the SQL of a query: its failures cost the query alone.

It is started as a script, with the limits as its arguments, and imports nothing of Ridgeline. It reads
questions from standard input and writes answers to standard output: see `ridgeline.operators._sql_engine`,
which imports it for both, without DuckDB.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

_SETTINGS = {
    "threads": "1",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_THEN = ("SET TimeZone = 'UTC'", "SET Calendar = 'gregorian'", "SET lock_configuration = true")
"""The zone of the host would be taken else: the same SQL would mean other days on another host."""
_LENGTH = struct.Struct("<Q")
_SPARE_BYTES = 256 * 2**20
"""Memory for Python and Arrow beside DuckDB."""


class NoSelectError(ValueError):
    """SQL that is not one SELECT; the text says what it is."""


def connect(memory_mb: int) -> Any:
    """A database without tables, files, network, extensions, and settings that SQL could change.

    It may take so many megabytes. Not for several threads. Raises ImportError without DuckDB.
    """
    import duckdb

    limits = {"memory_limit": f"{memory_mb}MB", "temp_directory": ""}
    connection = duckdb.connect(":memory:", config={**_SETTINGS, **limits})
    for setting in _THEN:
        connection.execute(setting)
    return connection


def relation_of(connection: Any, sql: str, tables: Mapping[str, pa.Table]) -> Any:
    """The relation of a SELECT over tables; `forget` forgets them. Raises NoSelectError, errors of DuckDB."""
    for name, table in tables.items():
        connection.register(name, table)
    statements = connection.extract_statements(sql)
    kinds = [one.type.name for one in statements]
    relation = connection.sql(sql) if kinds == ["SELECT"] else None
    if relation is None:
        raise NoSelectError(", ".join(kinds) or "nothing")
    return relation


def forget(connection: Any, tables: Iterable[str]) -> None:
    """Forget tables, those that are known."""
    for name in tables:
        connection.unregister(name)


def main() -> None:
    """Answer questions until standard input ends."""
    memory_mb, rows = int(sys.argv[1]), int(sys.argv[2])
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else gets into the answers
    os.nice(5)
    _limit(memory_mb)
    connection = connect(memory_mb)
    while (question := _read(questions)) is not None:
        head, parts = question
        signal.alarm(int(head["seconds"]) + 2)  # nobody may be left who could end it
        timer = threading.Timer(head["seconds"], connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            answer, data = _answer(connection, head, parts, rows)
        except MemoryError:
            answer, data = {"error": f"out of memory: it may take {memory_mb} MB"}, b""
        except BaseException as error:  # noqa: BLE001  whatever it is, it is the query's
            answer, data = {"error": _error_text(error, head["seconds"])}, b""
        timer.cancel()
        timer.join()
        signal.alarm(0)
        write_parts(answers, json.dumps(answer).encode(), data)


def _answer(
    connection: Any, head: dict[str, Any], parts: list[bytes], limit: int
) -> tuple[dict[str, Any], bytes]:
    """Run the SQL over tables; the tables that it names, whether there are more rows, and the rows."""
    sql = head["sql"]
    tables = {
        name: pa.ipc.open_stream(data).read_all() for name, data in zip(head["tables"], parts, strict=True)
    }
    try:
        relation = relation_of(connection, sql, tables)
        table = relation.limit(limit + 1).to_arrow_table()
        named = _named(connection, sql, head["tables"]) if head["names"] else []
    finally:
        forget(connection, tables)
    more = table.num_rows > limit
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.slice(0, limit))
    return {"tables": named, "more": more}, sink.getvalue().to_pybytes()


def _named(connection: Any, sql: str, tables: list[str]) -> list[str]:
    """The tables without which the SQL is wrong: those that it names, wherever it does."""
    import duckdb

    found = []
    for name in tables:
        if name.lower() in sql.lower():
            kept = connection.table(name).to_arrow_table()
            connection.unregister(name)
            try:
                connection.sql(sql)
            except duckdb.Error:
                found.append(name)
            connection.register(name, kept)
    return found


def _error_text(error: BaseException, seconds: float) -> str:
    if type(error).__name__ == "InterruptException":
        return f"it takes longer than {seconds:g} s"
    if isinstance(error, NoSelectError):
        return f"a query is one SELECT; got {error}"
    return str(error).strip() or type(error).__name__


def _limit(memory_mb: int) -> None:
    """Take no more memory than that, whatever DuckDB counts."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if not Path("/proc/self/statm").exists():  # macOS, which has no such limit either
        return
    now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
    most = now + memory_mb * 2**20 + _SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # not what is only reserved, as by threads


def _read(questions: IO[bytes]) -> tuple[dict[str, Any], list[bytes]] | None:
    """A question and its tables; None at the end."""
    try:
        head = json.loads(read_part(questions))
        return head, [read_part(questions) for _ in head["tables"]]
    except EOFError:
        return None


def read_part(pipe: IO[bytes]) -> bytes:
    """The next part of a question or an answer. Raises EOFError if the other side has ended."""
    length = pipe.read(_LENGTH.size)
    size = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else 0
    data = pipe.read(size)
    if len(length) < _LENGTH.size or len(data) < size:
        raise EOFError
    return data


def write_parts(pipe: IO[bytes], *parts: bytes) -> None:
    """Write the parts of a question or an answer. Raises OSError."""
    for part in parts:
        pipe.write(_LENGTH.pack(len(part)))
        pipe.write(part)
    pipe.flush()


if __name__ == "__main__":
    main()
