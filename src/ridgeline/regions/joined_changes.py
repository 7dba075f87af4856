"""Changes of an application of several regions: each goes to the region that it is of."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import ChangeError, did_you_mean, listed
from ridgeline.engine.driver.run.changes import APPLIED, QUEUED, REFUSED, WITHDRAWN, Asked, Changes, refused
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RenameOperator,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.execution import Plan
from ridgeline.plan.region import Region
from ridgeline.regions.region_run import RegionRun
from ridgeline.regions.sums import state_of
from ridgeline.regions.view import IDS
from ridgeline.stram.changes import Change, EditPlan, What

_CLOCK = SystemClock()
_OF_PLAN = frozenset(("path", "queue", "readers", "schema", "when_missing"))
"""The properties of the ends of a queue between two regions that the plan gives them."""
_HELD = "change one region at a time: each has windows of its own, so no window begins with both"


class AllDone:
    """Set once a change is made in all of its regions; as far as `threading.Event` is asked for."""

    def __init__(self, events: Sequence[threading.Event]) -> None:
        self._events = events

    def is_set(self) -> bool:
        """Whether it is made in all."""
        return all(event.is_set() for event in self._events)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is, at most so long; True if it is."""
        end = None if timeout is None else _CLOCK.monotonic() + timeout
        for event in self._events:
            if not event.wait(None if end is None else max(0.0, end - _CLOCK.monotonic())):
                return False
        return True


class JoinedAsked:
    """A change of one region, or the same of several, as `Asked`, with its number in the application."""

    def __init__(self, parts: Sequence[tuple[int, Asked]]) -> None:
        """`parts`: the number in the application of each, the first is that of all."""
        self.number = parts[0][0]
        self._asked = [asked for _, asked in parts]
        self.done = AllDone([asked.done for asked in self._asked])

    @property
    def change(self) -> Change:
        """The change, with its number in the application."""
        return replace(self._asked[0].change, number=self.number)

    @property
    def at(self) -> float:
        """When it was asked for."""
        return self._asked[0].at

    @property
    def state(self) -> str:
        """As that of `Asked`; `REFUSED` if one region has refused it, `APPLIED` once all have applied it."""
        states = [asked.state for asked in self._asked]
        return next((one for one in (REFUSED, QUEUED, WITHDRAWN) if one in states), APPLIED)

    @property
    def window(self) -> int | None:
        """The first window in which it has effect; None if it is of several regions."""
        return self._asked[0].window if len(self._asked) == 1 else None

    @property
    def reason(self) -> str:
        """Why it was refused or withdrawn, or what it waits for."""
        return next((asked.reason for asked in self._asked if asked.reason), "")

    def row(self) -> dict[str, Any]:
        """It as it is shown."""
        found = {"id": self.number, "state": self.state, "reason": self.reason, "window": self.window}
        return {**self._asked[0].row(), **found}


AnyAsked: TypeAlias = Asked | JoinedAsked
"""A change of an application of one region or of several."""


class JoinedChanges:
    """The changes of all regions, as `Changes`. Any thread may ask.

    An edit goes to the region that has the operators and streams which it names; `pause` and the like to all
    that run. The number of a change is that in its region plus the region's number times 1,000,000.
    """

    def __init__(self, regions: Sequence[RegionRun]) -> None:
        self._regions = tuple(regions)
        self._own = Changes(_CLOCK.wall)
        self._own.is_secret = self._is_secret
        """Those that no region has got."""
        self._first_own = IDS * (1 + max(region.number for region in regions))

    def _is_secret(self, name: str, value: object) -> bool:
        runs = [region.run for region in self._regions if region.run is not None]
        return any(run.changes.is_secret(name, value) for run in runs)

    def ask(self, what: What, by: str) -> JoinedAsked:
        """Ask for a change; one that is of no region, or of several, is refused with the reason."""
        try:
            regions = self._of(what)
        except ChangeError as error:
            return self._refuse(what, by, str(error))
        found = []
        for region in regions:
            run = region.run
            if run is None or not region.is_running:
                return self._refuse(what, by, _not_running(region))
            asked = run.changes.ask(what, by)
            found.append((region.number * IDS + asked.change.number, asked))
        return JoinedAsked(found)

    def _refuse(self, what: What, by: str, reason: str) -> JoinedAsked:
        asked = self._own.ask(what, by)
        self._own.take()
        refused(asked, reason)
        return JoinedAsked([(self._first_own + asked.change.number, asked)])

    def _of(self, what: What) -> Sequence[RegionRun]:
        """The regions that get a change. Raises ChangeError."""
        match what:
            case EditPlan(edits):
                return [region_of(self._regions, edits)]
        running = [region for region in self._regions if region.is_running and region.run is not None]
        if not running:
            raise ChangeError("no region runs")
        return running

    def find(self, number: int) -> JoinedAsked:
        """A change by its number. Raises KeyError if it is not among the last ones."""
        return JoinedAsked([(number, self._changes_of(number).find(number % IDS))])

    def withdraw(self, number: int) -> JoinedAsked:
        """Take back a change that waits. Raises KeyError if it is not among the last ones."""
        return JoinedAsked([(number, self._changes_of(number).withdraw(number % IDS))])

    def _changes_of(self, number: int) -> Changes:
        if number >= self._first_own:
            return self._own
        for region in self._regions:
            if region.number == number // IDS and region.run is not None:
                return region.run.changes
        raise KeyError(number)

    @property
    def closed(self) -> bool:
        """True once no window of any region begins any more."""
        return all(region.run is None or region.run.changes.closed for region in self._regions)

    def all(self) -> list[JoinedAsked]:
        """The last changes of all regions, by when they were asked for, the newest last."""
        found = [
            JoinedAsked([(region.number * IDS + asked.change.number, asked)])
            for region in self._regions
            if region.run is not None
            for asked in region.run.changes.all()
        ]
        found += [JoinedAsked([(self._first_own + one.change.number, one)]) for one in self._own.all()]
        return sorted(found, key=lambda one: one.at)

    def rows(self) -> list[dict[str, Any]]:
        """The last changes as they are shown, the newest last."""
        return [asked.row() for asked in self.all()]


class HasPlan(Protocol):
    """A region, planned or running."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def plan(self) -> Plan:
        """Its plan."""

    @property
    def region(self) -> Region:
        """Its operators and queues, as they are written."""


AnyRegion = TypeVar("AnyRegion", bound=HasPlan)


def region_of(regions: Sequence[AnyRegion], edits: Sequence[Edit]) -> AnyRegion:
    """The one region that has all that edits name. Raises ChangeError that says which names are where."""
    _check_ends(regions, edits)
    added = {edit.name for edit in edits if isinstance(edit, AddOperator)}
    added |= {edit.new for edit in edits if isinstance(edit, RenameOperator)}
    streams = {edit.name for edit in edits if isinstance(edit, AddStream)}
    homes: dict[str, list[AnyRegion]] = {}
    for name, is_stream in chain.from_iterable(map(_names, edits)):
        if name in (streams if is_stream else added):
            continue
        here = [one for one in regions if name in (_streams(one) if is_stream else _operators(one))]
        if not here:
            kind, find = ("stream", _streams) if is_stream else ("operator", _operators)
            known = chain.from_iterable(find(one) for one in regions)
            msg = f"there is no {kind} `{name}`; {did_you_mean(name, known)}"
            raise ChangeError(msg)
        homes[f"`{name}`"] = here
    if any(isinstance(edit, SetAttribute) and not edit.operator for edit in edits):
        msg = "an attribute of the application is of all regions, which change one at a time; give it to the "
        msg += "application's next start"
        raise ChangeError(msg)
    if not homes:
        msg = f"{listed(sorted(added))} is joined to no operator, so it is of no region; "
        msg += "add a stream to it in the same change"
        raise ChangeError(msg)
    shared = [one for one in regions if all(one in here for here in homes.values())]
    if not shared:
        where = ", ".join(f"{name} is in region `{here[0].name}`" for name, here in homes.items())
        msg = f"the change is of several regions ({where}); {_HELD}"
        raise ChangeError(msg)
    return shared[0]


def _check_ends(regions: Iterable[HasPlan], edits: Iterable[Edit]) -> None:
    """Refuse to undo what joins two regions. Raises ChangeError.

    The other end would wait for rows, or for a reader, that never come.
    """
    ends = {edge.writer for one in regions for edge in one.region.writes}
    ends |= {edge.reader for one in regions for edge in one.region.reads}
    for edit in edits:
        if isinstance(edit, SetProperty) and edit.operator in ends and edit.property in _OF_PLAN:
            name, what = edit.operator, f"leave its `{edit.property}` as it is"
        elif isinstance(edit, RemoveOperator | ReplaceOperator | RenameOperator) and edit.name in ends:
            name, what = edit.name, "change `decoupled` in the application, and begin with a fresh checkpoint"
        else:
            continue
        raise ChangeError(
            f"`{name}` is an end of the queue between two regions, whose place is in the checkpoint; {what}"
        )


def _names(edit: Edit) -> Iterator[tuple[str, bool]]:
    """The operators and streams that an edit names, and whether each is a stream."""
    match edit:
        case AddStream(_, source, sinks):
            yield source.rpartition(".")[0], False
            for sink in sinks:
                yield sink.rpartition(".")[0], False
        case AddSink(stream, sink):
            yield stream, True
            yield sink.rpartition(".")[0], False
        case _:
            yield from _others(edit)


def _others(edit: Any) -> Iterator[tuple[str, bool]]:
    """The names of edits that have one operator or one stream."""
    kind = type(edit).__name__
    if kind == "RemoveStream":
        yield edit.name, True
    elif kind == "RemoveSink":
        yield edit.stream, True
        yield edit.sink.rpartition(".")[0], False
    elif kind != "AddOperator" and (name := getattr(edit, "operator", None) or getattr(edit, "name", "")):
        yield name, False


def _operators(region: HasPlan) -> set[str]:
    """The names of operators and modules of a region."""
    logical = region.plan.logical
    return {one.name for one in logical.operators} | {one.name for one in logical.modules}


def _streams(region: HasPlan) -> set[str]:
    return {stream.name for stream in region.plan.logical.streams}


def _not_running(region: RegionRun) -> str:
    state = state_of(region).lower()
    how = "has failed" if state == "failed" else "has not started" if state == "pending" else f"is {state}"
    return f"region `{region.name}` {how}; start it first: `ridgeline regions APP --start {region.name}`"
