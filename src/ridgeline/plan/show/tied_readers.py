"""Readers of one stream whose results wait for each other: a window is committed as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ridgeline.api.errors import listed
from ridgeline.plan.logical import LogicalPlan


def tied_notes(logical: LogicalPlan, partitions: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Where a quick branch waits for a heavy one: the operator whose stream both read, and what to say.

    `partitions`: of each operator. Which branch is slow shows only while it runs. Here one is heavy if what
    is its own has partitions. One is quick if all that is its own has a single partition.
    """
    readers: dict[str, set[str]] = {}
    for stream in logical.streams:
        for sink in stream.sinks:
            readers.setdefault(stream.source.operator, set()).add(sink.operator)
    below: dict[str, set[str]] = {}
    for operator in reversed(logical.operators):
        after = readers.get(operator.name, set())
        below[operator.name] = {operator.name}.union(*(below.get(one, {one}) for one in after))
    order = [operator.name for operator in logical.operators]
    for stream in logical.streams:
        kept = {sink.operator for sink in stream.sinks if sink not in stream.persisted}
        branches = {}
        for name in sorted(kept, key=order.index):
            others = set().union(*(below[one] for one in kept if one != name))
            own = [one for one in order if one in below[name] - others]
            if any(one not in readers for one in own):
                branches[name] = own
        heavy = [
            max(own, key=lambda one: partitions[one])
            for own in branches.values()
            if any(partitions[one] > 1 for one in own)
        ]
        quick = [
            one
            for own in branches.values()
            if all(partitions[one] == 1 for one in own)
            for one in own
            if one not in readers
        ]
        if heavy and quick:
            wait = "waits with its results" if len(quick) == 1 else "wait with their results"
            text = (
                f"readers of stream `{stream.name}` are committed together: in each window {listed(quick)} "
            )
            text += f"{wait} for {listed(heavy)}; `ridgeline critical-path` says how long"
            yield stream.source.operator, text
