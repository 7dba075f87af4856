"""Divide an application into regions along its decoupled streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ridgeline.api.affinity import AffinityType
from ridgeline.api.application import KEEP, AddedRegion
from ridgeline.api.columns.dead_letter import NAME
from ridgeline.api.errors import listed, shorten
from ridgeline.api.support.attribute import Scope
from ridgeline.api.support.duration import FORMS, parse_duration
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.plan.draft import Draft, DraftStream, End, Faults
from ridgeline.plan.graphs import Sets, find_cycles, topological_order
from ridgeline.plan.logical import module_of
from ridgeline.plan.region import PortRef, QueueEdge, Region
from ridgeline.plan.validate.application import check_name
from ridgeline.plan.validate.attributes import check_attributes
from ridgeline.plan.validate.graph import ordered

Cut = tuple[DraftStream, End]
"""A stream and one sink of it that reads it from a queue."""


def divide(draft: Draft, faults: Faults) -> tuple[Region, ...]:
    """The regions of an application in topological order, none without decoupled streams; adds faults."""
    cuts = [(stream, sink) for stream in draft.streams for sink in stream.sinks if sink.decoupled]
    if not cuts:
        if draft.graph.regions:
            name = draft.graph.regions[0].name
            what = f"`set_region` names region `{name}`, but no stream is decoupled, so all is one region"
            faults.add(str(name), what, "give `decoupled=True` to the stream before it, or leave it out")
        return ()
    taker = draft.graph.dead_letters
    groups = Sets(range(len(draft.operators)))
    letters: list[Cut] = []
    for stream, source, sink in draft.edges():
        if sink.decoupled and sink.locality is not None:
            what = f"stream `{stream.name}` has a locality at `{sink}`, where it is decoupled"
            what += ": its ends run in windows of their own"
            faults.add(str(sink), what, "leave out the locality, or `decoupled`")
        elif sink.decoupled:
            continue
        elif sink.ref == taker:
            letters.append((stream, sink))
        else:
            groups.join(source.operator.index, sink.operator.index)
    delays: dict[str, int] = {}
    for operator in draft.operators:  # both ends of a delay are in one region
        if isinstance(operator.operator, (DelayHead, DelayTail)):
            groups.join(operator.index, delays.setdefault(module_of(operator.name), operator.index))
    letters = [cut for cut in letters if not groups.together(*_ends(cut))]
    for stream, sink in cuts:
        if stream.source is not None and groups.together(*_ends((stream, sink))):
            what = f"stream `{stream.name}` is decoupled at `{sink}`, but other streams lead there from "
            what += f"`{stream.source}` that are not: both ends are one region"
            faults.add(str(sink), what, "decouple these too, or none of them")
    for _, sink in letters:
        sink.decoupled = True
    return _named(draft, faults, groups, cuts, letters)


def _ends(cut: Cut) -> tuple[int, int]:
    stream, sink = cut
    source = -1 if stream.source is None else stream.source.operator.index
    return source, sink.operator.index


def _named(
    draft: Draft, faults: Faults, groups: Sets, cuts: list[Cut], letters: list[Cut]
) -> tuple[Region, ...]:
    """The regions in topological order, with names, attributes and queues."""
    members: dict[int, list[str]] = defaultdict(list)
    for operator in ordered(draft):
        members[groups.of(operator.index)].append(operator.name)
    number = {group: position for position, group in enumerate(members)}
    pairs = [(number[groups.of(a)], number[groups.of(b)]) for a, b in map(_ends, (*cuts, *letters)) if a >= 0]
    given = _given(draft, faults, groups)
    regions = []
    for group, operators in members.items():
        name, window, attributes = given.get(group, (operators[0].replace(".", "-"), None, {}))
        regions.append(Region(name, tuple(operators), window, attributes))
    for cycle in find_cycles(len(regions), [pair for pair in pairs if pair[0] != pair[1]]):
        way = " -> ".join(regions[one].name for one in cycle)
        what = f"decoupled streams lead from region to region in a cycle: `{way}`"
        faults.add(regions[cycle[0]].name, what, "leave one of them coupled, or lead none of them back")
    _check_names(faults, regions)
    _check_rules(draft, faults, regions)
    names = {group: regions[position].name for group, position in number.items()}
    edges = _edges(draft, groups, names, cuts, letters)
    order = topological_order(len(regions), pairs)
    rest = [one for one in range(len(regions)) if one not in order]
    return tuple(
        replace(
            regions[one],
            reads=tuple(edge for edge in edges if edge.reader_region == regions[one].name),
            writes=tuple(edge for edge in edges if edge.writer_region == regions[one].name),
        )
        for one in (*order, *rest)
    )


def _given(
    draft: Draft, faults: Faults, groups: Sets
) -> dict[int, tuple[str, float | str | None, Mapping[str, Any]]]:
    """Name, window and attributes of the groups that `set_region` names."""
    found: dict[int, tuple[str, float | str | None, Mapping[str, Any]]] = {}
    for added in draft.graph.regions:
        where = str(added.name)
        check_name(faults, "region", added.name)
        _check_window(faults, where, added)
        check_attributes(faults, where, Scope.APPLICATION, added.attributes, {})
        indices = _operators_of(draft, faults, where, added)
        homes = {groups.of(index) for index in indices}
        if len(homes) > 1:
            names = listed([draft.operators[index].name for index in indices])
            what = f"region `{added.name}` is to have {names}, but decoupled streams lie between them"
            faults.add(where, what, "name operators of one region")
        for home in homes:
            if home in found:
                what = f"`{found[home][0]}` and `{added.name}` are names of one region"
                faults.add(where, what, "call `set_region` once for it")
            found[home] = (str(added.name), added.window, dict(added.attributes))
    return found


def _check_window(faults: Faults, where: str, added: AddedRegion) -> None:
    try:
        _ = added.window is None or parse_duration(added.window)
    except ValueError:
        faults.add(where, f"the window of the region is {shorten(added.window)}", f"give {FORMS}")


def _operators_of(draft: Draft, faults: Faults, where: str, added: AddedRegion) -> list[int]:
    """The numbers of the operators that a call of `set_region` names."""
    found = []
    for one in added.operators:
        if isinstance(one, str) and one in draft.owners:
            found.append(draft.owners[one].index)
        else:
            what = f"it names {shorten(one)}, which is not in the application"
            faults.add(where, what, "name its operators")
    if not added.operators:
        faults.add(where, "the region names no operator", f'give one: `set_region("{where}", store)`')
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
    draft: Draft, groups: Sets, names: Mapping[int, str], cuts: list[Cut], letters: list[Cut]
) -> tuple[QueueEdge, ...]:
    """The queues between regions: one for a stream, with a reader for each region that reads it."""
    used = {operator.name for operator in draft.operators}
    sinks: dict[tuple[str, str], list[PortRef]] = defaultdict(list)
    streams = {stream.name: stream for stream, _ in cuts}
    for stream, sink in cuts:
        if stream.source is not None:
            sinks[stream.name, names[groups.of(sink.operator.index)]].append(sink.ref)
    found, writers = [], dict[str, str]()
    for (name, region), ports in sinks.items():
        stream = streams[name]
        assert stream.source is not None  # noqa: S101  as above
        plain = name.replace(".", "-")
        writer = writers.setdefault(name, "") or _free(stream.queue or f"{plain}_queue", used)
        writers[name] = writer
        found.append(
            QueueEdge(
                name,
                stream.source.ref,
                writer,
                names[groups.of(stream.source.operator.index)],
                _free(f"{plain}_to_{region}", used),
                region,
                tuple(ports),
                stream.keep,
            )
        )
    senders: dict[str, str] = {}
    for stream, sink in letters:
        if stream.source is None or (region := names[groups.of(stream.source.operator.index)]) in senders:
            continue
        senders[region] = f"{NAME}_of_{region}"
        found.append(
            QueueEdge(
                senders[region],
                PortRef(stream.source.operator.name, NAME),
                _free(f"{senders[region]}_queue", used),
                region,
                _free(senders[region], used),
                names[groups.of(sink.operator.index)],
                (sink.ref,),
                KEEP,
                letters=True,
            )
        )
    return tuple(found)


def _free(name: str, used: set[str]) -> str:
    """A name that no operator has; it is taken from now on."""
    while name in used:
        name += "_"
    used.add(name)
    return name
