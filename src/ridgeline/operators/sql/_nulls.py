"""Which columns of a SELECT cannot be null: DuckDB itself does not say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ridgeline.operators.sql._tree import Node, Select, arguments, column, lower_schemas, starred

_STRICT = frozenset(
    [
        "+",
        "-",
        "*",
        "||",
        "abs",
        "ceil",
        "concat",
        "date_trunc",
        "epoch",
        "epoch_ms",
        "epoch_us",
        "floor",
        "length",
        "lower",
        "round",
        "time_bucket",
        "trim",
        "upper",
    ]
)
"""Functions that are null only if an argument is."""
_COUNTS = frozenset({"count", "count_star", "row_number", "rank", "dense_rank", "rank_dense"})
_OF_GROUP = frozenset(
    [
        "any_value",
        "arg_max",
        "arg_min",
        "array_agg",
        "avg",
        "bool_and",
        "bool_or",
        "first",
        "last",
        "list",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "sum",
    ]
)
"""Aggregates that are null only if a group has nothing but nulls."""
_KINDS = frozenset({"BOOLEAN", "FLOAT", "INTEGER", "NUMERIC", "STRING"})
_PLAIN = frozenset(
    [
        "bigint",
        "blob",
        "bool",
        "boolean",
        "date",
        "decimal",
        "double",
        "float",
        "hugeint",
        "int",
        "int4",
        "int8",
        "integer",
        "long",
        "numeric",
        "real",
        "short",
        "smallint",
        "string",
        "text",
        "time",
        "timestamp",
        "timestamptz",
        "tinyint",
        "varchar",
    ]
)
"""Types to which a cast makes no null of a value: it would of `'null'` as JSON."""


def never_null(select: Select | None, schemas: Mapping[str, pa.Schema], count: int) -> list[bool]:
    """For each of `count` columns of the result whether it follows that it is never null."""
    unknown = [False] * count
    if select is None or len(select.node.get("group_sets") or []) > 1:
        return unknown
    reader = _Reader(select, schemas)
    found: list[bool] = []
    for node in select.node["select_list"]:
        if node.get("class") != "STAR":
            found.append(reader.sure(node))
        elif len(select.tables) == 1 and starred(node, select.tables):
            ((_, table),) = select.tables.items()
            schema = next(one for name, one in schemas.items() if name.lower() == table.name)
            found += [not field.nullable for field in schema]
        else:
            return unknown
    return found if len(found) == count else unknown


class _Reader:
    """Reads expressions of a SELECT."""

    def __init__(self, select: Select, schemas: Mapping[str, pa.Schema]) -> None:
        self.tables = select.tables
        self.columns = lower_schemas(schemas)
        self.grouped = bool(select.node.get("group_expressions"))
        self.readers = {
            "COLUMN_REF": self._column,
            "CONSTANT": self._constant,
            "CAST": self._cast,
            "COMPARISON": self._comparison,
            "CONJUNCTION": self._conjunction,
            "CASE": self._case,
            "OPERATOR": self._operator,
            "FUNCTION": self._function,
            "WINDOW": self._function,
        }

    def sure(self, node: Any) -> bool:
        """Whether an expression is never null."""
        reader = self.readers.get(node.get("class", "")) if isinstance(node, dict) else None
        return reader is not None and reader(node)

    def _constant(self, node: Node) -> bool:
        literal, value = node.get("literal") or {}, node.get("value") or {}
        return literal.get("kind") in _KINDS or value.get("is_null") is False

    def _cast(self, node: Node) -> bool:
        named, coded = node.get("type_expr") or {}, node.get("cast_type") or {}
        kind = str(named.get("type_name") or coded.get("id")).lower()
        return kind in _PLAIN and not node.get("try_cast") and self.sure(node.get("child"))

    def _comparison(self, node: Node) -> bool:
        return "DISTINCT" in node["type"] or (self.sure(node["left"]) and self.sure(node["right"]))

    def _conjunction(self, node: Node) -> bool:
        return all(map(self.sure, node["children"]))

    def _case(self, node: Node) -> bool:
        return all(
            map(self.sure, [one["then_expr"] for one in node["case_checks"]] + [node.get("else_expr")])
        )

    def _column(self, node: Node) -> bool:
        """Whether a column is never null in all tables that it may be of."""
        *alias, name = column(node)
        tables = [one for found, one in self.tables.items() if not alias or [found] == alias]
        found = [(table, self.columns[table.name].get(name)) for table in tables]
        there = [(table, field) for table, field in found if field is not None]
        return bool(there) and not any(table.outer or field.nullable for table, field in there)

    def _operator(self, node: Node) -> bool:
        kind = node["type"]
        if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            return True
        if kind == "OPERATOR_COALESCE":
            return any(map(self.sure, arguments(node)))
        return kind == "OPERATOR_NOT" and all(map(self.sure, arguments(node)))

    def _function(self, node: Node) -> bool:
        name = str(node.get("function_name", "")).lower()
        if name in _COUNTS:
            return True
        if node.get("class") == "WINDOW" or node.get("filter") or not arguments(node):
            return False
        if name in _OF_GROUP and not self.grouped:
            return False
        return name in _STRICT | _OF_GROUP and all(map(self.sure, arguments(node)))
