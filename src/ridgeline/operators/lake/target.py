"""How rows are written into a table of a lake, and whether the stream fits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.operators.lake.columns import Convert, fits


class Target(NamedTuple):
    """How rows are written. `delete`: the column that says which are deleted."""

    key: tuple[str, ...]
    delete: str | None
    partition_by: tuple[str, ...]
    overwrite: bool
    create: bool

    def written(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns of a stream that the table has."""
        return [field for field in schema if field.name != self.delete]


class Columns(NamedTuple):
    """The columns of a table: in order, those by which it is partitioned, those that must have a value."""

    fields: tuple[pa.Field, ...]
    partition_by: tuple[str, ...]
    needed: tuple[str, ...]


def target_faults(target: Target) -> list[tuple[str, object, str]]:
    """The properties that exclude each other."""
    faults: list[tuple[str, object, str]] = []
    if target.overwrite and target.key:
        faults.append(("overwrite", True, "cannot be given with `key`: rows are replaced by one of them"))
    if target.overwrite and not target.partition_by:
        faults.append(("overwrite", True, "needs `partition_by`: which partitions are replaced"))
    if target.delete is not None and target.delete in target.partition_by:
        faults.append(
            ("partition_by", target.partition_by, "names the column `delete`, which is not written")
        )
    return faults


class Check:
    """Compares a stream with its table. Each fault is a RidgelineError with the remedy."""

    def __init__(self, operator: str, place: str, target: Target, convert: Convert) -> None:
        self._operator, self._place, self._target, self._convert = operator, place, target, convert

    def fault(self, what: str, remedy: str) -> RidgelineError:
        """The error for a stream that cannot be written."""
        return RidgelineError(f"`{self._operator}` cannot write to {self._place}: {what}; {remedy}")

    def missing(self) -> RidgelineError:
        """The error for a table that is not there."""
        what = "the table does not exist"
        return self.fault(what, "create it, or leave `create` as it is")

    def stream(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns of the stream as the table has them. Raises RidgelineError for one that it cannot."""
        target = self._target
        named = {"key": target.key, "partition_by": target.partition_by}
        named["delete"] = (target.delete,) if target.delete else ()
        for entry, names in named.items():
            for name in names:
                if name not in schema.names:
                    hint = did_you_mean(name, schema.names)
                    raise self.fault(f"the stream has no column `{name}`, which `{entry}` names", hint)
        fields = []
        for field in target.written(schema):
            try:
                kind = self._convert(field.type)
            except ValueError as error:
                raise self.fault(f"column `{field.name}`: {error}", "convert it upstream") from error
            fields.append(pa.field(field.name, kind))
        for name in target.partition_by:
            kind = next(field.type for field in fields if field.name == name)
            is_ = pa.types  # the library writes negative decimals so that it cannot read them
            if is_.is_nested(kind) or is_.is_floating(kind) or is_.is_binary(kind) or is_.is_decimal(kind):
                raise self.fault(
                    f"column `{name}` of `partition_by` is {kind}",
                    "take texts, integers, dates or timestamps",
                )
        return fields

    def table(self, fields: Sequence[pa.Field], table: Columns) -> None:
        """Raise RidgelineError if rows of these columns cannot be written to a table."""
        found = {field.name: field.type for field in table.fields}
        for field in fields:
            if field.name not in found:
                remedy = f"add it to the table ({field.type}), or leave it out upstream"
                raise self.fault(f"the table has no column `{field.name}`", remedy)
            if not fits(field.type, found[field.name]):
                kind = found[field.name]
                raise self.fault(
                    f"column `{field.name}` is {kind} in the table and {field.type} in the stream",
                    "convert it upstream, or alter the table",
                )
        names = {field.name for field in fields}
        for name in table.needed:
            if name not in names:
                raise self.fault(
                    f"the table needs a value of column `{name}`, which the stream does not have",
                    "add it upstream, or let the column be null",
                )
        given = self._target.partition_by
        if given and set(given) != set(table.partition_by):
            own = ", ".join(table.partition_by) or "no column"
            raise self.fault(
                f"the table is partitioned by {own}, `partition_by` is {', '.join(given)}",
                "give the table's own columns",
            )
