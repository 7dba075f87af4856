"""Changes of an application of several regions: each goes to the region that it is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import ChangeError, did_you_mean, listed
from ridgeline.engine.driver.run.changes import APPLIED, QUEUED, REFUSED, WITHDRAWN, Asked, Requests
from ridgeline.plan.edits import (
    AddOperator,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveStream,
    RenameOperator,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.region import IDS
from ridgeline.regions.planning import PlannedRegion
from ridgeline.regions.region_run import RegionRun
from ridgeline.stram.changes import EditPlan, What

R = TypeVar("R", RegionRun, PlannedRegion)  # one that runs, or is about to
_CLOCK = SystemClock()
_OF_PLAN = frozenset(("path", "queue", "readers", "schema", "when_missing"))
"""The properties of the ends of a queue between two regions that the plan gives them."""
_HELD = "change one region at a time: each has windows of its own, so no window begins with both"


class JoinedAsked:
    """The same change of several regions, as `Asked`, with the number of the first; `done` once all are."""

    def __init__(self, parts: Sequence[Asked]) -> None:
        self._parts = parts
        self.number, self.what = parts[0].number, parts[0].what
        self.done = self
        self.window = None
        """Each region has windows of its own."""

    def is_set(self) -> bool:
        """Whether it is made in all."""
        return all(asked.done.is_set() for asked in self._parts)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is, at most so long; True if it is."""
        end = None if timeout is None else _CLOCK.monotonic() + timeout
        return all(
            asked.done.wait(None if end is None else max(0.0, end - _CLOCK.monotonic()))
            for asked in self._parts
        )

    @property
    def state(self) -> str:
        """As that of `Asked`; `REFUSED` if one region has refused it, `APPLIED` once all have applied it."""
        states = [asked.state for asked in self._parts]
        return next((one for one in (REFUSED, QUEUED, WITHDRAWN) if one in states), APPLIED)

    @property
    def reason(self) -> str:
        """Why it was refused or withdrawn, or what it waits for."""
        return next((asked.reason for asked in self._parts if asked.reason), "")

    def row(self) -> dict[str, Any]:
        """It as it is shown."""
        return {**self._parts[0].row(), "state": self.state, "reason": self.reason, "window": None}


AnyAsked: TypeAlias = Asked | JoinedAsked
"""A change of an application of one region or of several."""


class JoinedChanges:
    """The changes of all regions, as `Changes`. Any thread may ask.

    An edit goes to the region that has the operators and streams which it names; `pause` and the like to all
    that run.
    """

    def __init__(self, regions: Sequence[RegionRun]) -> None:
        self._regions = tuple(regions)
        self._own = Requests(_CLOCK.wall, IDS * (1 + max(region.number for region in regions)))
        """Those that no region has got."""
        self._own.is_secret = lambda name, value: any(one.is_secret(name, value) for one in self._each())

    def _each(self) -> list[Requests]:
        return [region.run.changes for region in self._regions if region.run is not None]

    def ask(self, what: What, by: str) -> AnyAsked:
        """Ask for a change; one that is of no region, or of several, is refused with the reason."""
        try:
            runs = [region.running() for region in self._of(what)]
        except ChangeError as error:
            asked = self._own.ask(what, by)
            self._own.take()
            self._own.refuse(asked, str(error))
            return asked
        found = [run.changes.ask(what, by) for run in runs]
        return found[0] if len(found) == 1 else JoinedAsked(found)

    def _of(self, what: What) -> Sequence[RegionRun]:
        """The regions that get a change. Raises ChangeError."""
        match what:
            case EditPlan(edits):
                return [region_of(self._regions, edits)]
        running = [region for region in self._regions if region.is_running and region.run is not None]
        if not running:
            raise ChangeError("no region runs")
        return running

    def find(self, number: int) -> Asked:
        """A change by its number. Raises KeyError if it is not among the last ones."""
        return self._with(number).find(number)

    def withdraw(self, number: int) -> Asked:
        """Take back a change that waits. Raises KeyError if it is not among the last ones."""
        return self._with(number).withdraw(number)

    def _with(self, number: int) -> Requests:
        return next(
            (one for one in self._each() if number in {asked.number for asked in one.all()}), self._own
        )

    @property
    def closed(self) -> bool:
        """True once no window of any region begins any more."""
        return all(changes.closed for changes in self._each())

    def all(self) -> list[Asked]:
        """The last changes of all regions, by when they were asked for, the newest last."""
        found = chain.from_iterable(changes.all() for changes in (*self._each(), self._own))
        return sorted(found, key=lambda asked: asked.at)

    def rows(self) -> list[dict[str, Any]]:
        """The last changes as they are shown, the newest last."""
        return [asked.row() for asked in self.all()]


def region_of(regions: Sequence[R], edits: Sequence[Edit]) -> R:
    """The one region that has all that edits name. Raises ChangeError that says which names are where."""
    _check_ends(regions, edits)
    if any(isinstance(edit, SetAttribute) and not edit.operator for edit in edits):
        msg = "an attribute of the application is of all regions, which change one at a time; give it to the "
        raise ChangeError(f"{msg}application's next start")
    added = {_Name("operator", edit.name) for edit in edits if isinstance(edit, AddOperator)}
    added |= {_Name("operator", edit.new) for edit in edits if isinstance(edit, RenameOperator)}
    added |= {_Name("stream", edit.name) for edit in edits if isinstance(edit, AddStream)}
    known = [(one, _known(one)) for one in regions]
    homes: dict[str, list[R]] = {}
    for named in chain.from_iterable(map(_named, edits)):
        if named in added:
            continue
        kind, name = named
        here = [one for one, names in known if named in names]
        if not here:
            alike = [one.name for _, names in known for one in names if one.kind == kind]
            raise ChangeError(f"there is no {kind} `{name}`; {did_you_mean(name, alike)}")
        homes[f"`{name}`"] = here
    if not homes:
        msg = f"{listed(sorted(one.name for one in added))} is joined to no operator, so it is of no region; "
        raise ChangeError(f"{msg}add a stream to it in the same change")
    shared = [one for one in regions if all(one in here for here in homes.values())]
    if not shared:
        where = ", ".join(f"{name} is in region `{here[0].name}`" for name, here in homes.items())
        raise ChangeError(f"the change is of several regions ({where}); {_HELD}")
    return shared[0]


def _check_ends(regions: Iterable[RegionRun | PlannedRegion], edits: Iterable[Edit]) -> None:
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


class _Name(NamedTuple):
    kind: Literal["operator", "stream"]
    name: str


def _named(edit: Any) -> Iterator[_Name]:
    """The operators and streams that an edit names, by the names of its fields."""
    if name := getattr(edit, "name", ""):
        yield _Name("stream" if isinstance(edit, AddStream | RemoveStream) else "operator", name)
    if operator := getattr(edit, "operator", ""):
        yield _Name("operator", operator)
    if stream := getattr(edit, "stream", ""):
        yield _Name("stream", stream)
    for port in (getattr(edit, "source", ""), getattr(edit, "sink", ""), *getattr(edit, "sinks", ())):
        if port:
            yield _Name("operator", port.rpartition(".")[0])


def _known(region: RegionRun | PlannedRegion) -> set[_Name]:
    """The names of operators, modules and streams of a region."""
    logical = region.plan.logical
    found = {_Name("stream", one.name) for one in logical.streams}
    found |= {_Name("operator", one.name) for one in logical.operators}
    return found | {_Name("operator", one.name) for one in logical.modules}
