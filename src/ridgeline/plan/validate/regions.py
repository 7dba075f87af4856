"""Divide an application into regions along its decoupled streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.affinity import AffinityType
from ridgeline.api.application import KEEP
from ridgeline.api.columns.dead_letter import NAME
from ridgeline.api.errors import Faults, listed
from ridgeline.api.support.attribute import Scope
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.plan.draft import Draft, free_name
from ridgeline.plan.graph import Stream
from ridgeline.plan.graphs import Sets, find_cycles, topological_order
from ridgeline.plan.logical import module_of
from ridgeline.plan.region import PortRef, QueueEdge, Region
from ridgeline.plan.validate.attributes import check_attributes

Cut = tuple[Stream, PortRef]
"""A stream and one sink of it that reads it from a queue."""


def divide(draft: Draft, faults: Faults) -> tuple[Region, ...]:
    """The regions of an application in topological order, none without decoupled streams; adds faults."""
    every = [(stream, end) for stream in draft.streams.values() for end in stream.sinks]
    cuts = [(stream, end) for stream, end in every if stream.sinks[end].decoupled]
    if not cuts:
        if draft.graph.regions:
            name = draft.graph.regions[0].name
            what = f"`set_region` names region `{name}`, but no stream is decoupled, so all is one region"
            faults.add(str(name), what, "give `decoupled=True` to the stream before it, or leave it out")
        return ()
    groups = Sets(draft.owners)
    letters: list[Cut] = []
    for stream, end in every:
        if stream.source is None or stream.sinks[end].decoupled:
            continue
        if end == draft.graph.dead_letters:
            letters.append((stream, end))
        else:
            groups.join(stream.source.operator, end.operator)
    delays: dict[str, str] = {}
    for operator in draft.operators:  # both ends of a delay are in one region
        if isinstance(operator.operator, (DelayHead, DelayTail)):
            groups.join(operator.name, delays.setdefault(module_of(operator.name), operator.name))

    letters = [cut for cut in letters if not _is_inside(groups, cut)]
    for stream, end in cuts:
        if stream.sinks[end].locality is not None:
            what = f"stream `{stream.name}` has a locality at `{end}`, where it is decoupled"
            what += ": its ends run in windows of their own"
            faults.add(str(end), what, "leave out the locality, or `decoupled`")
        if _is_inside(groups, (stream, end)):
            what = f"stream `{stream.name}` is decoupled at `{end}`, but other streams lead there from "
            what += f"`{stream.source}` that are not: both ends are one region"
            faults.add(str(end), what, "decouple these too, or none of them")
    _check_keeps(faults, cuts)
    for stream, end in letters:
        sinks = {**stream.sinks, end: replace(stream.sinks[end], decoupled=True)}
        draft.streams[stream.name] = replace(stream, sinks=sinks)
    return _named(draft, faults, groups, cuts, letters)


def _check_keeps(faults: Faults, cuts: list[Cut]) -> None:
    """Add a fault for each decoupled stream whose `keep` is no duration."""
    for stream in {stream.name: stream for stream, _ in cuts}.values():
        try:
            parse_duration(stream.keep)
        except ValueError:
            what = f"stream `{stream.name}` is decoupled with `keep={stream.keep!r}`, which is no duration"
            faults.add(stream.name, what, 'give a number of seconds, or a text such as `keep="1h"`')


def _is_inside(groups: Sets[str], cut: Cut) -> bool:
    """True if both ends are in one region."""
    stream, end = cut
    return stream.source is not None and groups.of(stream.source.operator) == groups.of(end.operator)


def _named(
    draft: Draft, faults: Faults, groups: Sets[str], cuts: list[Cut], letters: list[Cut]
) -> tuple[Region, ...]:
    """The regions in topological order, with names, attributes and queues."""
    members: dict[str, list[str]] = defaultdict(list)
    for operator in draft.ordered():
        members[groups.of(operator.name)].append(operator.name)
    pairs = [
        (groups.of(stream.source.operator), groups.of(end.operator))
        for stream, end in (*cuts, *letters)
        if stream.source is not None
    ]
    given = _given(draft, faults, groups)
    regions = {}
    for group, operators in members.items():
        name, window, attributes = given.get(group, (operators[0].replace(".", "-"), None, {}))
        regions[group] = Region(name, tuple(operators), window, attributes)
    for cycle in find_cycles(regions, [pair for pair in pairs if pair[0] != pair[1]]):
        way = " -> ".join(regions[one].name for one in cycle)
        what = f"decoupled streams lead from region to region in a cycle: `{way}`"
        faults.add(regions[cycle[0]].name, what, "leave one of them coupled, or lead none of them back")
    _check_names(faults, regions.values())
    _check_rules(draft, faults, regions.values())
    homes = {name: region.name for region in regions.values() for name in region.operators}
    edges = _edges(draft, homes, cuts, letters)
    order = topological_order(regions, pairs)
    return tuple(
        replace(
            region,
            reads=tuple(edge for edge in edges if edge.reader_region == region.name),
            writes=tuple(edge for edge in edges if edge.writer_region == region.name),
        )
        for region in (regions[group] for group in dict.fromkeys((*order, *regions)))
    )


def _given(
    draft: Draft, faults: Faults, groups: Sets[str]
) -> dict[str, tuple[str, float | str | None, Mapping[str, Any]]]:
    """Name, window and attributes of the groups that `set_region` names."""
    found: dict[str, tuple[str, float | str | None, Mapping[str, Any]]] = {}
    for added in draft.graph.regions:
        where = added.name
        check_attributes(faults, where, Scope.APPLICATION, added.attributes, {})
        names = [name for name in added.operators if name in draft.owners]
        homes = {groups.of(name) for name in names}
        if len(homes) > 1:
            what = f"region `{added.name}` is to have {listed(names)}, but decoupled streams lie between them"
            faults.add(where, what, "name operators of one region")
        for home in homes:
            if home in found:
                what = f"`{found[home][0]}` and `{added.name}` are names of one region"
                faults.add(where, what, "call `set_region` once for it")
            found[home] = (where, added.window, dict(added.attributes))
    return found


def _check_names(faults: Faults, regions: Collection[Region]) -> None:
    names = [region.name for region in regions]
    for name in {name for name in names if names.count(name) > 1}:
        faults.add(name, f"two regions have the name `{name}`", "give one another name by `set_region`")


def _check_rules(draft: Draft, faults: Faults, regions: Collection[Region]) -> None:
    """Refuse rules that operators of several regions run together or apart: each has slots of its own.

    Rules about hosts are of each operator by itself.
    """
    homes = {name: region.name for region in regions for name in region.operators}
    for rule in draft.affinity:
        names = [name for name in rule.operators if name in homes]
        if len({homes[name] for name in names}) > 1 and not (rule.relax or rule.hosts):
            kind = AffinityType.ANTI_AFFINITY if rule.apart else AffinityType.AFFINITY
            what = f"{kind} is asked for of {listed(names)}, which are in several regions"
            faults.add(rule.name, what, "name operators of one region, or relax the rule")


def _edges(
    draft: Draft, homes: Mapping[str, str], cuts: list[Cut], letters: list[Cut]
) -> tuple[QueueEdge, ...]:
    """The queues between regions: one for a stream, with a reader for each region that reads it.

    `homes`: the region of each operator. The dead letters of a region are one stream.
    """
    used = set(draft.owners)

    def free(name: str) -> str:
        name = free_name(name, used)
        used.add(name)
        return name

    ends: dict[tuple[str, str], list[PortRef]] = defaultdict(list)
    streams = {stream.name: stream for stream, _ in cuts}
    for stream, end in cuts:
        if stream.source is not None:
            ends[stream.name, homes[end.operator]].append(end)
    found, writers = [], dict[str, str]()
    for (name, region), sinks in ends.items():
        stream, plain = streams[name], name.replace(".", "-")
        assert stream.source is not None  # noqa: S101  as above
        if name not in writers:
            writers[name] = free(stream.queue or f"{plain}_queue")
        reader, home = free(f"{plain}_to_{region}"), homes[stream.source.operator]
        edge = QueueEdge(name, stream.source, writers[name], home, reader, region, tuple(sinks), stream.keep)
        found.append(edge)
    senders = set[str]()
    for stream, end in letters:
        if stream.source is None or (home := homes[stream.source.operator]) in senders:
            continue
        senders.add(home)
        name, source = f"{NAME}_of_{home}", PortRef(stream.source.operator, NAME)
        writer, reader, region = free(f"{name}_queue"), free(name), homes[end.operator]
        found.append(QueueEdge(name, source, writer, home, reader, region, (end,), KEEP, letters=True))
    return tuple(found)
