"""DuckDB in the process of an operator: one SELECT over tables of Arrow, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pyarrow as pa

from ridgeline.api.errors import RidgelineError, SchemaError, did_you_mean, listed
from ridgeline.operators._sql_engine import QueryError, for_duckdb, from_duckdb

_NO_COLUMN = re.compile(r'[Rr]eferenced column "(.+?)" not found|does not have a column named "(.+?)"')
_NO_TABLE = re.compile(r'Table with name (\S+) does not exist|Referenced table "(.+?)" not found')
_NO_MATCH = re.compile(r"No function matches the given name and argument types '((.+?)\(.*?\))'")
_LINE = re.compile(r"(?P<line>LINE \d+: .*)\n(?P<caret> *)\^")
_HINT = re.compile(r'Did you mean "(.+?)"')
_LONGEST_SNIPPET = 40


def imported() -> ModuleType:
    """DuckDB. Raises SchemaError without it."""
    try:
        import duckdb
    except ImportError as error:
        raise SchemaError(
            "SQL steps need DuckDB, which is not installed here; install it: `pip install 'ridgeline[query]'`"
        ) from error
    return duckdb


class Duck:
    """A database without tables, files, network, extensions, and settings that SQL could change.

    `memory_mb`: it may take so many megabytes. Not for several threads.
    """

    def __init__(self, memory_mb: int) -> None:
        duckdb = imported()
        from ridgeline.operators._sql_child import SETTINGS, THEN

        self.select_type = duckdb.StatementType.SELECT
        self.connection = duckdb.connect(
            ":memory:", config={**SETTINGS, "memory_limit": f"{memory_mb}MB", "temp_directory": ""}
        )
        for setting in THEN:
            self.connection.execute(setting)

    def close(self) -> None:
        """Give the memory back."""
        self.connection.close()

    def columns(self, sql: str, tables: Mapping[str, pa.Schema]) -> tuple[pa.Schema, list[str]]:
        """The columns that a SELECT makes, and their types in DuckDB's words. Raises SchemaError."""
        empty = {name: schema.empty_table() for name, schema in tables.items()}
        try:
            relation = self._relation(sql, empty)
            kinds = [str(kind) for kind in relation.types]
            found = relation.to_arrow_table().schema
        except SchemaError:
            raise
        except Exception as error:
            raise SchemaError(self._text(error, sql, tables)) from error
        finally:
            self._forget(tables)
        if "INTERVAL" in kinds:
            self._try(sql, tables)
        return found, kinds

    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The rows that a SELECT makes. Raises RidgelineError with DuckDB's reason."""
        try:
            return _without_months(from_duckdb(self._relation(sql, tables).to_arrow_table()))
        except RidgelineError:
            raise
        except Exception as error:
            text = first_line(error)
            remedy = "; allow more by `memory_mb`" if type(error).__name__ == "OutOfMemoryException" else ""
            raise RidgelineError(f"the SQL failed: {text}{remedy}") from error
        finally:
            self._forget(tables)

    def _try(self, sql: str, tables: Mapping[str, pa.Schema]) -> None:
        """Run a SELECT over a row of nulls each. Raises SchemaError for a constant interval of months."""
        rows = {name: [pa.nulls(1, field.type) for field in schema] for name, schema in tables.items()}
        try:
            self.run(sql, {name: pa.table(rows[name], schema.names) for name, schema in tables.items()})
        except SchemaError:
            raise
        except RidgelineError:
            pass  # it fails where all is null, which says nothing about other rows

    def _columns_read(self, sql: str, function: str) -> list[str]:
        """The columns that calls of a function read, in order; none of what DuckDB has no tree of."""
        try:
            (text,) = self.connection.execute("select json_serialize_sql(?::varchar)", [sql]).fetchall()[0]
        except Exception:  # noqa: BLE001  of DuckDB
            return []
        calls = [one for one in _nodes(json.loads(text)) if one.get("function_name") == function]
        columns = (one for call in calls for one in _nodes(call) if one.get("class") == "COLUMN_REF")
        return list(dict.fromkeys(str(one["column_names"][-1]) for one in columns))

    def _relation(self, sql: str, tables: Mapping[str, pa.Table]) -> Any:
        """Return the relation of a SELECT. Raises SchemaError for other statements, and errors of DuckDB."""
        for name, table in tables.items():
            try:
                self.connection.register(name, for_duckdb(table, name))
            except QueryError as error:
                raise SchemaError(f"{error}; cast the column before") from error
        statements = self.connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type is not self.select_type:
            kinds = ", ".join(one.type.name for one in statements) or "nothing"
            raise SchemaError(
                f"the SQL must be one SELECT, but it is {kinds}; write the one SELECT that makes the rows"
            )
        relation = self.connection.sql(sql)
        if relation is None:
            raise SchemaError("the SQL makes no rows; write one SELECT")
        return relation

    def _forget(self, tables: Mapping[str, Any]) -> None:
        for name in tables:
            self.connection.unregister(name)

    def _text(self, error: Exception, sql: str, tables: Mapping[str, pa.Schema]) -> str:
        """Return a description of an error: the column or table, and the remedy."""
        text = str(error)
        if found := _NO_COLUMN.search(text):
            name = found[1] or found[2]
            known = [column for schema in tables.values() for column in schema.names]
            return f"there is no column `{name}`; {did_you_mean(name, known)}"
        if found := _NO_TABLE.search(text):
            name = found[1] or found[2]
            hint = did_you_mean(name, tables)
            return f"there is no table `{name}`; {hint}; or give its stream as `{name}=...`"
        if found := _NO_MATCH.search(text):
            read = self._columns_read(sql, found[2])
            of = f", which reads {listed(read)}" if read else ""
            return f"no function fits `{found[1]}`{of}; cast in the SQL"
        if found := _LINE.search(text):
            snippet = found["line"][len(found["caret"]) :][:_LONGEST_SNIPPET].strip()
            return f"{first_line(error)}: `{snippet}`"
        near = _HINT.search(text)
        return first_line(error) + (f"; did you mean `{near[1]}`?" if near else "")


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """A node of a statement's tree and all below it."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _nodes(one)


def _without_months(table: pa.Table) -> pa.Table:
    """A result of which all lengths of time are fixed. Raises SchemaError."""
    for field in table.schema:
        if field.type == pa.month_day_nano_interval():
            msg = f"column `{field.name}` has an interval with months, which have no fixed length, or with "
            raise SchemaError(msg + "nanoseconds; add it to a time in the SQL, or cast it to a text")
    return table


def first_line(error: Exception) -> str:
    """The first line of an error of DuckDB, without its kind."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^[A-Z][\w ]* Error: ", "", line).rstrip(".!")
