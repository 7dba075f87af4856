"""The tuples that an operator has sent to its error ports in a window, and those that came too late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import shorten
from ridgeline.api.points import OutputPoint
from ridgeline.plan.physical import PhysicalOperator


def rejected_tuples(
    emitted: Mapping[str, Sequence[Tuples]], outputs: Mapping[str, OutputPoint], spec: PhysicalOperator
) -> tuple[int, int, list[str]]:
    """How many tuples went to error ports and to those for late records, and some of the first as text.

    Of errors `error_tuples_kept` are text. Late records are no errors.
    """
    keep = spec.attributes["error_tuples_kept"]
    count, late, kept = 0, 0, list[str]()
    for name, parts in emitted.items():
        if outputs[name].port.late:
            late += sum(map(len, parts))
        elif outputs[name].port.error:
            for part in parts:
                count += len(part)
                if len(kept) < keep:
                    kept += [shorten(row) for row in part.rows[: keep - len(kept)]]
    return count, late, kept
