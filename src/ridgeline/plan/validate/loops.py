"""Rules of delay operators, and of the loops that go through them."""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.api.errors import listed
from ridgeline.api.operator import SparkSource
from ridgeline.api.support.loops import HEAD, TAIL, DelayHead, DelayTail
from ridgeline.plan.draft import Draft, Faults
from ridgeline.plan.graphs import reachable, successors
from ridgeline.plan.logical import LogicalPlan, module_of


def check_loops(draft: Draft, faults: Faults) -> None:
    """Refuse ends of a delay that do not fit each other, and application windows of a delay.

    With an application window tuples would stay in the delay for several windows.
    """
    partitions = {
        module_of(operator.name): operator.partitions
        for operator in draft.operators
        if isinstance(operator.operator, DelayHead)
    }
    for operator in draft.operators:
        if not isinstance(operator.operator, (DelayHead, DelayTail)):
            continue
        delay = module_of(operator.name)
        count = operator.attributes["application_window_count"]
        if isinstance(count, int) and count != 1:
            what = f"a delay of one window was given application windows of {count}"
            remedy = "leave it out, or give it to an operator of the loop"
            faults.add(operator.port("application_window_count"), what, remedy)
        emits, takes = partitions.get(delay), operator.partitions
        if isinstance(operator.operator, DelayTail) and None not in (emits, takes) and emits != takes:
            noun = "partition" if takes == 1 else "partitions"
            what = f"`{delay}.{TAIL}` has {takes} {noun}, `{delay}.{HEAD}` has {emits}"
            faults.add(delay, what, f"give `partitions` to `{delay}`, for both ends")


def loop_notes(logical: LogicalPlan) -> Iterator[tuple[str, str]]:
    """The operators with what is to be known of delays: each delay that is in no loop, then of all loops."""
    index = {operator.name: number for number, operator in enumerate(logical.operators)}
    edges = [
        (index[stream.source.operator], index[sink.operator])
        for stream in logical.streams
        for sink in stream.sinks
    ]
    following = successors(len(index), edges)
    heads = {
        module_of(one.name): number
        for number, one in enumerate(logical.operators)
        if isinstance(one.operator, DelayHead)
    }
    for delay, head in heads.items():
        behind = {head}
        for _ in heads:  # a loop may go through several delays
            behind |= {node for one in behind for node in reachable(one, following)}
            behind |= {one for other, one in heads.items() if index[f"{other}.{TAIL}"] in behind}
        if index[f"{delay}.{TAIL}"] not in behind:
            yield delay, "it is in no loop: its stream comes one window later, nothing else"
    if heads:
        first = next(iter(heads))
        yield first, "the application runs one window at a time, whatever `windows_in_flight` says"
        sources = [one.name for one in logical.operators if isinstance(one.operator, SparkSource)]
        if sources:
            yield first, f"loops go on only as {listed(sources)} has new rows: Spark begins windows with them"
