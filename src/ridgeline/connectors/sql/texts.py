"""Texts of SQL that all databases share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quoted(name: str, mark: str = '"') -> str:
    """A name as SQL quotes it; it may have a dot in it."""
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def dotted(name: str, mark: str = '"') -> str:
    """The name of a table, with a schema or database or without."""
    return ".".join(quoted(part, mark) for part in name.split("."))


def listed(names: Iterable[str], mark: str = '"') -> str:
    """Names of columns as a list of SQL."""
    return ", ".join(quoted(name, mark) for name in names)


def on_conflict(key: Sequence[str], names: Sequence[str]) -> str:
    """The end of an INSERT of columns by which a row replaces the one with its key."""
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in key)
    return f"on conflict ({listed(key)}) do {f'update set {changes}' if changes else 'nothing'}"


def merged(table: str, key: Sequence[str], names: Sequence[str], last: str, deleted: str | None) -> list[str]:
    """The statements that bring rows into a table by key, those first that are deleted.

    `last`: the rows in SQL, with the name `last`. `deleted`: their column that says which of them are.
    """
    statements, kept = [], ""
    if deleted is not None:
        same = " and ".join(f"{table}.{quoted(name)} = last.{quoted(name)}" for name in key)
        statements.append(f"delete from {table} using {last} where last.{deleted} and {same}")  # noqa: S608  identifiers
        kept = f" where not last.{deleted}"
    columns = listed(names)
    insert = f"insert into {table} ({columns}) select {columns} from {last}{kept} "  # noqa: S608  identifiers
    return [*statements, insert + on_conflict(key, names)]
