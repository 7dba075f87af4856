"""Whether a SELECT over the tuples of some keys is that over all tuples, for these keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ridgeline.operators.sql._tree import Equal, Node, Select, column, nodes, starred

Keys = Mapping[str, Sequence[str]]
"""The key columns of each table, by its name in small letters."""


def division_fault(select: Select | None, keys: Keys, aggregates: frozenset[str]) -> str | None:
    """Why partitions by these keys would find something else than one partition; None if they would not.

    `aggregates`: the names of functions that are aggregates, or call one.
    """
    if select is None:
        return "it is no plain SELECT over the streams, without WITH, UNION and sub-queries"
    node, division = select.node, _Division(select, keys)
    modifiers = {one["type"]: one for one in node.get("modifiers") or []}
    kinds, distinct = modifiers.keys(), modifiers.get("DISTINCT_MODIFIER")
    listed, groups = node["select_list"], _groups(node)
    by_all = node.get("aggregate_handling") == "FORCE_AGGREGATES"
    grouped = by_all or bool(node.get("group_sets")) or node.get("having") is not None
    grouped = grouped or any(map(_Aggregates(aggregates), nodes(listed)))
    overs = [one.get("partitions") or [] for one in nodes(node) if one.get("class") == "WINDOW"]
    causes = {
        "LIMIT would let so many rows of each partition through": bool(
            kinds & {"LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"}
        ),
        "ORDER BY would order the rows of each partition": "ORDER_MODIFIER" in kinds,
        "USING SAMPLE would take a share of each partition": bool(node.get("sample")),
        "a join compares other columns than those of the keys": not division.joined(),
        "DISTINCT is over columns without those of the key": distinct is not None
        and not division.has_keys(distinct.get("distinct_on_targets") or listed),
        "OVER has no PARTITION BY with all columns of the key": not all(map(division.has_keys, overs)),
        "GROUP BY has several sets": len(node.get("group_sets") or []) > 1,
        "GROUP BY does not have all columns of the key": grouped
        and not division.has_keys(listed if by_all else groups),
    }
    return next((cause for cause, found in causes.items() if found), None)


def _groups(node: Node) -> list[Node]:
    """The expressions of GROUP BY; the numbers in it are columns of the result."""
    found = []
    for one in node.get("group_expressions") or []:
        value = one.get("literal") or one.get("value") or {}
        number = value.get("text", value.get("value")) if one.get("class") == "CONSTANT" else None
        listed = node["select_list"]
        place = int(number) if number is not None and str(number).isdecimal() else 0
        found.append(listed[place - 1] if 1 <= place <= len(listed) else one)
    return found


class _Aggregates:
    """True for nodes that are calls of aggregates."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def __call__(self, node: Node) -> bool:
        return node.get("class") == "FUNCTION" and str(node.get("function_name")).lower() in self.names


class _Division:
    """The columns of a SELECT that are keys."""

    def __init__(self, select: Select, keys: Keys) -> None:
        self.keys = keys
        self.select = select
        self.tables = select.tables
        self.plain = select.using if len(select.tables) > 1 else None

    def has_keys(self, listed: Sequence[Any]) -> bool:
        """Whether all key columns of a table that no join fills with nulls are among expressions."""
        found = {column(one) for one in listed}
        whole = {alias for one in listed for alias in starred(one, self.tables) or ()}

        def there(alias: str, name: str) -> bool:
            plain = self.plain is None or name in self.plain
            return (alias, name) in found or (plain and (name,) in found)

        return any(
            alias in whole or all(there(alias, name) for name in self.keys[table.name])
            for alias, table in self.tables.items()
            if not table.outer
        )

    def joined(self) -> bool:
        """Whether tables are joined, all to all, by their keys, each column of a key with its counterpart.

        An outer join keeps rows that meet none, so it must compare keys itself, and its sides before it.
        """
        equal: list[Equal] = []
        together: list[frozenset[str]] = []
        for join in self.select.joins:
            if join.filters:
                equal += join.equal
                continue
            left, right = join.sides
            if not any(self._meet(one, other, join.equal) for one in left for other in right):
                return False
            if not all(self._all_meet(side, equal, together) for side in join.sides):
                return False
            together.append(left | right)
        return self._all_meet(self.tables, [*equal, *self.select.where], together)

    def _all_meet(
        self, tables: Collection[str], equal: Collection[Equal], together: Sequence[frozenset[str]]
    ) -> bool:
        """Whether tables are joined, all to all; `together`: some that are."""
        first, *others = tables
        reached = [first]
        while others:
            near = [
                one
                for one in others
                if any(self._meet(one, other, equal) for other in reached)
                or any(one in some and not some.isdisjoint(reached) for some in together)
            ]
            if not near:
                return False
            reached += near
            others = [one for one in others if one not in near]
        return True

    def _meet(self, one: str, other: str, equal: Collection[Equal]) -> bool:
        own, others = self.keys[self.tables[one].name], self.keys[self.tables[other].name]
        return len(own) == len(others) and all(
            frozenset({(one, mine), (other, theirs)}) in equal
            for mine, theirs in zip(own, others, strict=True)
        )
