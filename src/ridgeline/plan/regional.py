"""Plan each region of an application by itself: its operators, with the ends of the queues that it has."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ridgeline.api.affinity import AffinityRule, AffinityType
from ridgeline.api.application import AddedAttributes, AddedOperator, AddedStream, Application
from ridgeline.api.columns.dead_letter import DeadLetter
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import InputOperator, Operator
from ridgeline.plan.draft import Draft
from ridgeline.plan.logical import LogicalPlan, module_of
from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.plan.references import moved_stream
from ridgeline.plan.region import PortRef, QueueEdge, Region


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """Makes the operators at both ends of a queue.

    `writer(edges)`: of all edges of a stream, an operator with the port `input`. `reader(edge, schema)`: an
    input operator with the port `output`.
    """

    writer: Callable[[Sequence[QueueEdge]], Operator]
    reader: Callable[[QueueEdge, Schema], InputOperator]


class RegionPlans:
    """Plans the regions of a valid application, each as an application of its own."""

    def __init__(self, app: Application, whole: LogicalPlan, ends: QueueEnds) -> None:
        self._app = app
        self.whole = whole
        self._ends = ends
        self._partitions = {one.name: max(1, len(one.divided)) for one in whole.operators}

    def application(self, region: Region) -> Application:
        """The application of which planning leaves this region only."""
        made = copy.copy(self._app)
        made.cut = partial(self._cut, region)
        return made

    def _cut(self, region: Region, draft: Draft, app: Application) -> Application:
        """The application by name as far as it is in the region, with the ends of its queues."""
        cutter = _Cutter(region, app)
        made = copy.copy(app)
        streams = {stream.name: stream for stream in self.whole.streams}
        made.operators = [one for one in app.operators if one.name in cutter.inside]
        made.streams = [part for one in app.streams if (part := cutter.stream(one)) is not None]
        dead_letters: list[Any] = []
        for edge in region.reads:
            schema = Schema(DeadLetter) if edge.letters else streams[edge.stream].schema
            reader = self._ends.reader(edge, schema)
            count = 1 if edge.letters else self._partitions[edge.source.operator]
            made.operators.append(AddedOperator(edge.reader, reader, {"partitions": count}))
            begin = PortRef(edge.reader, "output")
            if edge.letters:
                dead_letters.append(begin)
            else:
                sinks = tuple(map(cutter.ends.__getitem__, edge.sinks))
                made.streams.append(AddedStream(edge.stream, begin, sinks, module=module_of(edge.stream)))
        made.attributes_set = [one for one in app.attributes_set if cutter.holds(one.target)]
        letters: Any = app.dead_letter_port
        made.dead_letter_port = letters if letters is not None and cutter.holds(letters) else None
        for name in dict.fromkeys(edge.writer for edge in region.writes):
            edges = [edge for edge in region.writes if edge.writer == name]
            made.operators.append(AddedOperator(name, self._ends.writer(edges), {}))
            _write(made, edges[0])
        made.affinity = [kept for rule in self.whole.affinity if (kept := cutter.rule(rule)) is not None]
        made.promises = [one for one in app.promises if not one.operator or one.operator in cutter.inside]
        made.policies = [copy.deepcopy(one) for one in app.policies if cutter.decides(one)]
        draft.policies, draft.promises = tuple(made.policies), tuple(made.promises)
        made.regions, made.cut = [], None
        made.dead_letter_sources = tuple(dead_letters)
        made.window = app.window if region.window is None else region.window
        attributes: Any = {**app.attributes, **region.attributes}
        made.attributes = attributes
        draft.region, draft.elsewhere = region.name, cutter.elsewhere
        draft.modules = [module for module in draft.modules if cutter.whole(module.name)]
        return made


def _write(made: Application, edge: QueueEdge) -> None:
    """Let a stream lead into the writer of its queue, beside the sinks that it has here."""
    entry: Any = PortRef(edge.writer, "input")
    if edge.letters:
        made.dead_letter_port = entry
        several = {"partition_parallel": False}  # it follows the partitions of no operator
        made.attributes_set.append(AddedAttributes(entry, several))
        return
    for number, stream in enumerate(made.streams):
        if stream.name == edge.stream:
            made.streams[number] = replace(stream, sinks=(*stream.sinks, entry))
            return
    made.streams.append(AddedStream(edge.stream, edge.source, (entry,), module=module_of(edge.stream)))


class _Cutter:
    """Cuts a region out of an application by name, without modules."""

    def __init__(self, region: Region, app: Application) -> None:
        names = frozenset(str(one.name) for one in app.operators)
        self.inside = frozenset(region.operators)
        self.elsewhere = names - self.inside
        self.ends = {end: end for stream in app.streams for end in stream.sinks}
        """The sinks with the ports of modules that lead there."""

    def holds(self, target: PortRef | str) -> bool:
        """Whether an operator, or a port of one, is in the region."""
        return (target if isinstance(target, str) else target.operator) in self.inside

    def stream(self, added: AddedStream) -> AddedStream | None:
        """The part of a stream that is not decoupled, if its source is here; None if nothing is left of it.

        A stream that only a queue reads is made by `_write`.
        """
        if not self.holds(added.source):
            return None
        left = moved_stream(added, lambda end: None if end in added.decoupled else end)
        return left if left.sinks else None

    def rule(self, rule: PlacementRule) -> AffinityRule | None:
        """A rule of the whole application, as far as it is of operators here; None if nothing is left of it.

        Rules of modules that are wholly here, and those that attributes say, are read from there again.
        """
        if rule.declared or self.whole(module_of(rule.name)):
            return None
        names = [name for name in rule.operators if name in self.inside]
        if len(names) < (1 if rule.hosts else 2):
            return None
        kind = AffinityType.ANTI_AFFINITY if rule.apart else AffinityType.AFFINITY
        return AffinityRule(kind, names, None, rule.locality, rule.relax, rule.hosts)

    def decides(self, policy: Any) -> bool:
        """Whether a policy is of operators of the region, or of none in particular."""
        named = getattr(policy, "operators", None) or getattr(policy, "operator", None) or ()
        names: Collection[str] = [named] if isinstance(named, str) else named
        return not names or any(name in self.inside for name in names)

    def whole(self, module: str) -> bool:
        """Whether all operators of a module are in the region."""
        inside = f"{module}."
        own = [name for name in (*self.inside, *self.elsewhere) if name.startswith(inside)]
        return bool(own) and self.inside.issuperset(own)
