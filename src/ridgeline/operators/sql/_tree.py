"""Statements of SQL as trees of nodes, which DuckDB makes of their text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Node = dict[str, Any]
_FILLED = {
    "INNER": (False, False),
    "LEFT": (False, True),
    "RIGHT": (True, False),
    "OUTER": (True, True),
    "SEMI": (False, False),
    "ANTI": (False, False),
}
"""By the kind of a join whether it fills the columns of its left and right side with nulls."""
_CHANGES = ("exclude_list", "replace_list", "rename_list", "qualified_exclude_list", "expr", "columns")
"""Parts of a star that leave columns out, or change them."""


@dataclass(frozen=True)
class Table:
    """A table in FROM. `name`: of the stream, in small letters. `outer`: a join may fill it with nulls."""

    name: str
    outer: bool = False


Equal = frozenset[tuple[str, str]]
"""Two columns that are equal, as names of table and column."""


@dataclass(frozen=True)
class Join:
    """A join in FROM. `sides`: the aliases of the tables of each. `equal`: what its own condition compares.

    `filters`: it only leaves rows out, so any condition after it is as good as its own.
    """

    sides: tuple[frozenset[str], frozenset[str]]
    equal: tuple[Equal, ...]
    filters: bool


@dataclass
class Select:
    """A SELECT over streams alone, without sub-queries.

    `tables`: by alias. `joins`: each after those of its sides. `where`: the pairs of columns that WHERE
    compares. `using`: columns that its joins name by USING.
    """

    node: Node
    tables: dict[str, Table] = field(default_factory=dict)
    joins: list[Join] = field(default_factory=list)
    where: tuple[Equal, ...] = ()
    using: set[str] = field(default_factory=set)


def parsed(connection: Any, sql: str) -> Node | None:
    """The node of a single statement; None for what DuckDB has no tree of."""
    (text,) = connection.execute("select json_serialize_sql(?::varchar)", [sql]).fetchall()[0]
    document = json.loads(text)
    statements = document.get("statements", [])
    node: Node | None = statements[0].get("node") if len(statements) == 1 else None
    return node


def select_of(node: Node | None, names: Sequence[str]) -> Select | None:
    """A plain SELECT over the tables of these names; None for any other statement."""
    if node is None or node.get("type") != "SELECT_NODE" or node.get("cte_map", {}).get("map"):
        return None
    if any(one.get("class") == "SUBQUERY" for one in nodes(node)):
        return None
    found = Select(node)
    known = {name.lower() for name in names}
    if not _add(found, node.get("from_table") or {}, known, outer=False):
        return None
    found.where = tuple(_equal(node.get("where_clause")))
    return found


def _add(found: Select, source: Node, known: set[str], *, outer: bool) -> bool:
    """Add the tables of a part of FROM; False for a part that is no table or join of tables."""
    if source.get("type") == "JOIN":
        return _add_join(found, source, known, outer=outer)
    if source.get("type") != "BASE_TABLE" or source.get("column_name_alias") or source.get("sample"):
        return False
    name = str(source["table_name"]).lower()
    alias = str(source.get("alias") or source["table_name"]).lower()
    if name not in known or alias in found.tables or source.get("schema_name"):
        return False
    found.tables[alias] = Table(name, outer)
    return True


def _add_join(found: Select, source: Node, known: set[str], *, outer: bool) -> bool:
    """Add the tables of a join; False for one that is not known here."""
    how = source.get("join_type")
    if source.get("ref_type") not in ("REGULAR", "CROSS", "ASOF") or how not in _FILLED:
        return False
    sides: list[frozenset[str]] = []
    for side, filled in zip(("left", "right"), _FILLED[how], strict=True):
        before = set(found.tables)
        if not _add(found, source[side], known, outer=outer or filled):
            return False
        sides.append(frozenset(found.tables) - before)
    equal = list(_equal(source.get("condition")))
    for name in map(str.lower, source.get("using_columns") or []):
        found.using.add(name)
        equal += [frozenset({(one, name), (other, name)}) for one in sides[0] for other in sides[1]]
    filters = how == "INNER" and source["ref_type"] != "ASOF"
    found.joins.append(Join((sides[0], sides[1]), tuple(equal), filters))
    return True


def _equal(node: Any) -> Iterator[Equal]:
    """The pairs of columns that are equal where a condition is true."""
    if not isinstance(node, dict):
        return
    if node.get("type") == "CONJUNCTION_AND":
        for child in node["children"]:
            yield from _equal(child)
    elif node.get("type") == "COMPARE_EQUAL":
        left, right = column(node["left"]), column(node["right"])
        if len(left) == len(right) == 2:  # noqa: PLR2004  a table and a column
            yield frozenset({(left[0], left[1]), (right[0], right[1])})


def nodes(part: Any) -> Iterator[Node]:
    """A node and all below it."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from nodes(one)


def column(node: Node) -> tuple[str, ...]:
    """The name of a column with that of its table, if it is said, in small letters; () for no column."""
    if node.get("class") != "COLUMN_REF":
        return ()
    return tuple(str(name).lower() for name in node["column_names"])


def starred(node: Node, tables: Mapping[str, Table]) -> list[str] | None:
    """The aliases of the tables whose columns a star is, all and as they are; None for what is no such star.

    DuckDB has stars that leave columns out, and change them.
    """
    if node.get("class") != "STAR" or any(node.get(one) for one in _CHANGES):
        return None
    alias = str(node.get("relation_name") or "").lower()
    return [one for one in tables if alias in ("", one)]


def columns_read(node: Node | None, function: str) -> list[str]:
    """The columns that calls of a function read, in order."""
    calls = [one for one in nodes(node) if one.get("function_name") == function]
    found = [one["column_names"][-1] for call in calls for one in nodes(call) if column(one)]
    return list(dict.fromkeys(found))
