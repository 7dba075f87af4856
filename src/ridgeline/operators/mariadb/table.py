"""The table that `MariaDbOutput` writes to: it is made, or compared with the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from ridgeline.api.errors import did_you_mean
from ridgeline.operators.mariadb.columns import Column, column_type, described, fits
from ridgeline.operators.mariadb.connecting import listed, quoted, quoted_column

_COLUMNS = """select column_name, data_type, column_type, is_nullable = 'YES', column_default is null,
    extra, generation_expression, collation_name, datetime_precision
    from information_schema.columns where table_schema = %s and table_name = %s order by ordinal_position"""
_ENGINE = """select t.table_type, t.engine, e.transactions from information_schema.tables t
    left join information_schema.engines e on e.engine = t.engine
    where t.table_schema = %s and t.table_name = %s"""
_UNIQUE = """select index_name, column_name, sub_part from information_schema.statistics
    where table_schema = %s and table_name = %s and non_unique = 0"""


Fault = Callable[[str, str], NoReturn]
"""Raises the error for what is wrong, with the remedy."""


class Target(NamedTuple):
    """The table, and how rows are written. `delete`: the column that says which rows are deleted."""

    name: str
    key: tuple[str, ...]
    delete: str | None
    create: bool

    def written(self, schema: pa.Schema) -> list[Any]:
        """The columns of a stream that the table has."""
        return [field for field in schema if field.name != self.delete]


class Table:
    """A table at the server, as it was found.

    `columns`: by name. `sole`: it has no unique index but that of the key.
    """

    def __init__(
        self,
        target: Target,
        execute: Callable[..., Any],
        database: str,
        fault: Callable[[str, str], NoReturn],
    ) -> None:
        self._target, self._execute, self._fault = target, execute, fault
        schema, dot, name = target.name.partition(".")
        self._place = (schema, name) if dot else (database, target.name)
        self.columns: Mapping[str, Column] = {}
        self.sole = True

    def settle(self, schema: pa.Schema, version: str) -> None:
        """Make the table if it is missing, and compare it. Raises RidgelineError, with the remedy.

        `version`: what the server says of itself.
        """
        target = self._target
        fields = target.written(schema)
        for name in (*target.key, *([target.delete] if target.delete else ())):
            if name not in schema.names:
                hint = did_you_mean(name, schema.names)
                self._fault(f"the stream has no column `{name}`, which `key` or `delete` names", hint)
        if not self._place[0]:
            self._fault("no database is named", "name one in `url` or `table`")
        self.columns = self._read()
        if not self.columns:
            if not target.create:
                self._fault("the table does not exist", "create it, or leave `create` as it is")
            self._create(fields, version)
            self.columns = self._read()
        self.check_engine(self._execute, *self._place, self._fault)
        self._compare(fields)

    def _read(self) -> dict[str, Column]:
        """The columns; none if the table is missing."""
        found = {}
        for name, kind, full, nullable, bare, extra, generated, collation, digits in self._execute(
            _COLUMNS, self._place
        ):
            made = "auto_increment" in (extra or "") or bool(generated)
            needs = bool(bare) and not nullable and not made
            found[name] = Column(
                kind.lower(), full, needs, bool(nullable), collation or "", 6 if digits is None else digits
            )
        return found

    @staticmethod
    def check_engine(execute: Callable[..., Any], database: str, name: str, fault: Fault) -> None:
        """Refuse a view, and a table without transactions: what failed there would stay there."""
        for kind, engine, transactions in execute(_ENGINE, (database, name)):
            if kind not in {"BASE TABLE", "SYSTEM VERSIONED"}:
                fault(f"`{name}` is a {kind.lower()}", "write to the table beneath it")
            if transactions != "YES":
                remedy = f"alter table {quoted(f'{database}.{name}')} engine = InnoDB"
                fault(
                    f"the engine of `{name}`, {engine}, has no transactions, so rows could be twice", remedy
                )

    def _create(self, fields: Sequence[Any], version: str) -> None:
        """Make the table, unless another one has just made it."""
        target = self._target
        columns = [f"{quoted_column(name)} {kind}" for name, kind in described(fields, target.key)]
        if target.key:
            columns.append(f"primary key ({listed(target.key)})")
        collation = "utf8mb4_nopad_bin" if "MariaDB" in version else "utf8mb4_0900_bin"
        options = f"engine = InnoDB character set utf8mb4 collate {collation}"
        self._execute(f"create table if not exists {quoted(target.name)} ({', '.join(columns)}) {options}")

    def _compare(self, fields: Sequence[Any]) -> None:
        """Raise RidgelineError unless rows of these columns can be written, by their types."""
        target, name = self._target, quoted(self._target.name)
        for one in fields:
            if one.name not in self.columns:
                add = f"alter table {name} add column {quoted_column(one.name)} {column_type(one.type)}"
                self._fault(f"the table has no column `{one.name}`", f"{add}, or leave it out upstream")
            column = self.columns[one.name]
            if not fits(one.type, column):
                what = f"column `{one.name}` is {column.full} in the table and {one.type} in the stream"
                self._fault(what, "convert it upstream, or alter the table")
        names = {one.name for one in fields}
        for one, column in self.columns.items():
            if column.needs and one not in names:
                what = f"the table needs a value of column `{one}`, which the stream does not have"
                self._fault(what, "give the column a default, or add it upstream")
        if target.key:
            self._compare_key()

    def _compare_key(self) -> None:
        """Refuse a key without a unique index, and one where another one could be meant."""
        target = self._target
        indexes: dict[str, set[Any]] = {}
        for index, column, part in self._execute(_UNIQUE, self._place):
            indexes.setdefault(index, set()).add((column, part))
        wanted = {(name, None) for name in target.key}
        others = [index for index, columns in indexes.items() if columns != wanted]
        if len(others) == len(indexes):
            keys = ", ".join(target.key)
            self._fault(f"no unique index has exactly the columns of `key` ({keys})", "create one")
        self.sole = not others
        nullable = [name for name in target.key if self.columns[name].nullable]
        if others and nullable:
            what = f"column `{nullable[0]}` of the key may be null, and `{others[0]}` is unique, too"
            self._fault(what, "declare the column as not null")
