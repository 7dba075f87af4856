"""The driver's half of output operators: their publishers, called around a window's commit."""

from __future__ import annotations

import inspect
import json
import logging
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure, OperatorError, RidgelineError, described, shorten
from ridgeline.api.operator import InputOperator, Operator, operator_type
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.support.files import StoreAwayError
from ridgeline.api.support.secrets.addresses import mask_addresses
from ridgeline.engine.files.patience import STARTING_SECONDS, Patience
from ridgeline.measure.events import OutputAsked, OutputPublished
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalOperator
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import WindowReport
from ridgeline.plan.same_values import same_values
from ridgeline.plan.shown_properties import holds_secret

if TYPE_CHECKING:
    from ridgeline.engine.driver.checkpoint.folder import Checkpoint


class OutputStores(Patience):
    """Makes the calls of publishers, and again while a store, a mount or a full disk keeps their files away.

    Only calls that raise StoreAwayError are: it says that nothing of them was lost. One thread calls.
    """

    uri = ""

    def __init__(self, clock: Clock) -> None:
        self._begin(clock, STARTING_SECONDS)

    def _passes(self, error: Exception) -> bool:
        return isinstance(error, StoreAwayError)

    call = Patience._try  # noqa: SLF001  it is one
    """Make a call until it succeeds; raises what it raises.

    `new`: the output is added, so its address may be wrong: its error refuses the change, and the run
    continues without it.
    """


_log = logging.getLogger(__name__)
_UNKNOWN = "properties "
_Half = TypeVar("_Half")


def publisher_contexts(
    application: str, checkpoint: Checkpoint, clock: Clock, console: Console, spark: Callable[[], Any]
) -> Callable[[str], PublisherContext]:
    """The surroundings of publishers, by operator. `spark`: returns the session, or raises RidgelineError."""

    def publisher_context(operator: str) -> PublisherContext:
        return PublisherContext(
            application=application,
            operator=operator,
            run_id=checkpoint.run_id,
            clock=clock,
            console=console,
            staging=f"{checkpoint.storage.uri}/staging",
            spark=spark,
            epoch=checkpoint.epoch,
            check_owner=checkpoint.check_owner,
            committed=checkpoint.committed,
        )

    return publisher_context


class Outputs:
    """All publishers of an application, by operator; none before `open`. For one thread.

    An error of a publisher ends the run: OperatorError that names the operator, or a RidgelineError as it is.
    With `stores` a publisher waits for files that it cannot use now.
    """

    def __init__(
        self,
        plan: Plan,
        clock: Clock,
        context: Callable[[str], PublisherContext],
        stores: OutputStores | None = None,
        warn: Callable[[str], None] = _log.warning,
    ) -> None:
        """`warn`: takes a text for people."""
        self.plan = plan
        self.publishers: dict[str, Publisher] = {}
        self.places: dict[str, str] = {}
        """The outputs whose results last: the class of each publisher, and where it publishes."""
        self._stores = stores
        self._clock = clock
        self._context = context
        self._warn = warn
        self._open: dict[str, Operator] = {}
        """The operators whose publishers are open."""
        self._partitions: dict[str, list[int]] = {}
        self._bounded: Sequence[str] = ()
        """The outputs that may hold windows back."""
        self.why_held: str | None = None
        """The last answer of `full`. Any thread may ask."""
        self._visible: dict[str, int] = {}
        self._published: list[OutputPublished | OutputAsked] = []
        self._seconds, self._given = 0.0, False
        self._troubled: set[str] = set()
        """The outputs that were in trouble when they were asked last."""

    @property
    def full(self) -> str | None:
        """Why no further window may begin, as a publisher says; None: one may.

        `warn` is called when it changes.
        """
        reasons = ((name, self.publishers[name].full) for name in self._bounded)
        found = next(
            (mask_addresses(f"`{name}`: {reason}") for name, reason in reasons if reason is not None), None
        )
        if (found is None) != (self.why_held is None):
            self._warn("windows begin again" if found is None else f"no window begins: {found}")
            self.why_held = found
        return found

    @property
    def ending(self) -> bool:
        """Whether the run is to end, so that no store is waited for without a limit. Any thread may ask."""
        return self._stores is not None and self._stores.ending

    @property
    def group_windows(self) -> bool:
        """Whether several windows may be staged before they are published."""
        return all(publisher.groups_windows for publisher in self.publishers.values())

    def open(self, plan: Plan, states: Mapping[str, object], committed: int, *, new: bool = False) -> None:
        """Publish for a plan from where the last committed window, which is published, has left outputs.

        Publishers that are open stay so if their operators are the same. Others show all that they hold back,
        and are closed. If one raises, the plan before is to be opened again: those of it that are closed by
        then are made anew. `new`: as of `OutputStores.call`.
        """
        stay = staying(self._open, plan, self.publishers)
        found = publishers_of(plan, stay)
        self.places = places_of(plan, found)
        operators = {one.name: one for one in plan.logical.operators}
        opened: list[str] = []
        try:
            for name in self._open.keys() - found.keys():  # first: another one may go on with what it has
                self._let_go(name, committed)
            for name in sorted(found.keys() - stay.keys(), key=lambda name: name in self._open):
                if name in self._open:
                    self._let_go(name, committed)
                opened.append(name)
                self.publishers = {**self.publishers, name: found[name]}
                self._open_one(operators[name], found[name], states.get(name), committed, new=new)
        except Exception:
            for name in opened:  # `close` would show rows, also of one that its folder has refused
                with suppress(Exception):
                    self.publishers[name].abandon()
            self.publishers = {name: self.publishers[name] for name in self._open}
            raise
        self.plan, self.publishers = plan, found
        self._open = {name: operators[name].operator for name in found}
        self._bounded = [name for name, one in found.items() if type(one).full is not Publisher.full]
        self._partitions = {
            name: [one.id for one in plan.physical.operators if one.name == name and not one.unifier]
            for name in found
        }
        for name, publisher in stay.items():
            self._call(name, "plan_changed", committed, publisher.plan_changed)

    def _let_go(self, name: str, committed: int) -> None:
        """Let a publisher show all that it holds back, and close it."""
        del self._open[name]
        try:
            self._show(name, self.publishers[name], committed)
        finally:
            self.publishers = {other: one for other, one in self.publishers.items() if other != name}
            self._visible.pop(name, None)

    def _open_one(
        self, one: LogicalOperator, publisher: Publisher, state: object, committed: int, *, new: bool
    ) -> None:
        context = replace(
            self._context(one.name),
            warn=lambda text: self._warn(mask_addresses(f"`{one.name}`: {text}")),
            attributes=one.attributes,
            schemas=one.inputs,
        )
        self._call(one.name, "open", committed, publisher.open, context, state, new=new)

    def _show(self, name: str, publisher: Publisher, committed: int) -> None:
        """Let a publisher show all that it holds back."""
        self._call(name, "close", committed, publisher.close)
        self._note_visible(name, publisher, committed)

    def stage(self, window_id: int, reports: Iterable[WindowReport]) -> dict[str, object]:
        """Stage what the containers handed over; returns the publishers' new states, for the manifest."""
        states = {}
        began = self._clock.monotonic()
        handed_over = {
            report.window.operator: report.handed_over for window in reports for report in window.operators
        }
        self._given = any(handed_over.values())
        for name, publisher in self.publishers.items():
            values = [value for operator in self._partitions[name] for value in handed_over.get(operator, [])]
            state = self._call(name, "stage", window_id, publisher.stage, window_id, values)
            self._call(name, "stage", window_id, check_json, state)
            if state is not None:
                states[name] = state
        taken = {one for name in self.publishers for one in self._partitions[name]}
        for operator, values in handed_over.items():
            if values and operator not in taken:
                self._refuse_lost(self.plan.physical.operator(operator), window_id)
        self._seconds += self._clock.monotonic() - began
        return states

    def _refuse_lost(self, one: PhysicalOperator, window_id: int) -> None:
        """Raise OperatorError for an operator that hands values over which nobody takes."""
        operator = one.operator
        if isinstance(operator, InputOperator) and type(operator).enumerator is not InputOperator.enumerator:
            return  # its enumerator gets them
        what = "it hands values over (`hand_over`), and nobody would publish them"
        message = f"{what}; return a `Publisher` from its method `publisher`, which gave None"
        raise OperatorError(
            Failure(self.plan.logical.application, one.name, 0, window_id, "publisher", message)
        )

    def committing(self, window_id: int) -> None:
        """The commit begins of all windows that are staged, up to this one."""
        for name, publisher in self.publishers.items():
            self._call(name, "committing", window_id, publisher.committing)

    def publish(self, window_id: int) -> None:
        """Publish a committed window, and those staged before it."""
        began = self._clock.monotonic()
        for name, publisher in self.publishers.items():
            self._call(name, "publish", window_id, publisher.publish, window_id)
            self._note_visible(name, publisher, window_id)
        self._seconds += self._clock.monotonic() - began

    def publish_again(self, window_id: int, states: Mapping[str, object]) -> None:
        """At a start: publish the last committed window, since a driver may have died before it did.

        `states`: those as of that window. A publisher without a state, and without an `open` of its
        own, has nothing to publish any more. That it misses what `stage` gave it is no error.
        """
        for name, publisher in self.publishers.items():
            knows = states.get(name) is not None or type(publisher).open is not Publisher.open
            try:
                self._call(name, "publish", window_id, publisher.publish, window_id)
            except OperatorError as error:
                if knows or not isinstance(error.__cause__, (AttributeError, LookupError, TypeError)):
                    raise
                text = "`%s` has no state, so it cannot publish window %d once more (%s); if the driver died "
                text += "before it had published it, its results are missing: let `stage` return a state"
                _log.info(text, name, window_id, error.__cause__)
            self._note_visible(name, publisher, window_id)

    def idle(self, committed: int) -> None:
        """Let publishers show what they have held back for long enough."""
        for name, publisher in self.publishers.items():
            self._call(name, "idle", committed, publisher.idle)
            self._note_visible(name, publisher, committed)

    def close(self, committed: int) -> None:
        """Let publishers show all that they still hold back."""
        for name, publisher in self.publishers.items():
            self._show(name, publisher, committed)

    def abandon(self) -> None:
        """Let publishers go that have staged what will not be committed, perhaps.

        `open` makes all of them anew then. Until then they can be asked for what they have published.
        """
        for publisher in self.publishers.values():
            with suppress(Exception):
                publisher.abandon()
        self._open.clear()
        self._visible.clear()

    def take_published(self) -> list[OutputPublished | OutputAsked]:
        """The windows that readers have come to see since the last call, and what hinders others."""
        published, self._published = self._published, []
        return published

    @property
    def over(self) -> dict[str, str]:
        """The outputs that are done and are to leave the plan, each with why."""
        why = {name: getattr(one, "over", None) for name, one in self.publishers.items()}
        return {name: text for name, text in why.items() if text}

    def take_seconds(self) -> float:
        """How long publishers took for windows that had something for them, since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds if self._given else 0.0

    def _note_visible(self, name: str, publisher: Publisher, published: int) -> None:
        """Note how far readers see. A publisher that does not say so shows every window that it publishes."""
        visible = publisher.visible
        visible = published if visible is None else visible
        if visible > self._visible.get(name, -1):
            self._visible[name] = visible
            self._published.append(OutputPublished(self._clock.wall(), name, visible))
        trouble = publisher.trouble
        if (trouble is not None) != (name in self._troubled):
            self._troubled ^= {name}
            problem = mask_addresses(trouble or "")
            self._published.append(OutputAsked(self._clock.wall(), name, problem))

    def _call(
        self,
        name: str,
        callback: str,
        window_id: int,
        function: Callable[..., object],
        *arguments: object,
        new: bool = False,
    ) -> object:
        """Call a publisher, and again while its files are away. `new`: as of `OutputStores.call`."""
        application = self.plan.logical.application
        again = partial(call_on_driver, application, name, callback, window_id, function, *arguments)
        if self._stores is None:
            return again()
        publisher = self.publishers.get(name)
        silent = publisher is not None and publisher.only_files
        place = self.places.get(name, "").partition(": ")[2]
        return self._stores.call(again, silent=silent, place=place, output=name, new=new)


def call_on_driver(
    application: str,
    operator: str,
    callback: str,
    window_id: int,
    function: Callable[..., Any],
    *arguments: object,
) -> Any:
    """Call the driver's half of an operator; its errors name the operator and the window."""
    try:
        return function(*arguments)
    except RidgelineError:
        raise
    except Exception as error:
        raise OperatorError(
            Failure(application, operator, 0, window_id, callback, described(error))
        ) from error


def driver_halves(
    plan: Plan, stay: Mapping[str, _Half], kind: type[_Half], make: Callable[[Operator], object]
) -> dict[str, _Half]:
    """What operators of a plan have on the driver: halves that stay, and others that are not open yet.

    `make`: calls the method of an operator that returns one, or None. Raises RidgelineError.
    """
    found = {}
    for logical in plan.logical.operators:
        half = stay.get(logical.name) or make(logical.operator)
        if half is not None and not isinstance(half, kind):
            what = f"operator `{logical.name}`: its method `{kind.__name__.lower()}` gave {shorten(half)}"
            raise RidgelineError(
                f"{what}, which is no `{kind.__name__}`; return an instance of a class that derives from it"
            )
        if half is not None:
            found[logical.name] = half
    return found


def operators_of(plan: Plan) -> dict[str, Operator]:
    """The operators of a plan, by name."""
    return {logical.name: logical.operator for logical in plan.logical.operators}


def staying(before: Mapping[str, Operator], plan: Plan, halves: Mapping[str, _Half]) -> dict[str, _Half]:
    """The halves of operators that are the same in a plan. `before`: the operators that they are of."""
    return {
        name: halves[name]
        for name, operator in operators_of(plan).items()
        if name in halves and name in before and _alike_on_driver(before[name], operator)
    }


def publishers_of(plan: Plan, stay: Mapping[str, Publisher]) -> dict[str, Publisher]:
    """The publishers of a plan."""
    found = driver_halves(plan, stay, Publisher, lambda operator: operator.publisher())
    for name, publisher in found.items():
        _refuse_what_never_runs(name, publisher)
    return found


def _refuse_what_never_runs(name: str, publisher: Publisher) -> None:
    """Raise RidgelineError for a publisher with a method that is called, and of which nothing would run."""
    for method in ("open", "stage", "committing", "publish", "idle", "rewind", "abandon", "close"):
        function = getattr(type(publisher), method)
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            what = f"`{method}` of the publisher of `{name}` is `async`, or has `yield` in it"
            raise RidgelineError(f"{what}: it would never run; make it a plain method")


def check_json(state: object) -> None:
    """Raise TypeError for a state that JSON cannot hold, or would change."""
    json.dumps(state)
    waiting = [state]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            odd = next((key for key in one if not isinstance(key, str)), "")
            if odd != "":
                raise TypeError(
                    f"a dictionary in the state has the key {odd!r}, which JSON makes text; use texts as keys"
                )
            waiting += one.values()
        elif isinstance(one, (list, tuple)):
            waiting += one


def places_of(plan: Plan, publishers: Mapping[str, Publisher]) -> dict[str, str]:
    """As `Outputs.places`. Where a publisher does not say its place, the properties stand for it."""
    operators = operators_of(plan)
    places = {}
    for name, publisher in publishers.items():
        if publisher.lasting:
            place = publisher.place()
            if place is None:
                values = {
                    key: value
                    for key, value in _properties(operators[name]).items()
                    if not holds_secret(plan.logical, f"{name}.{key}", value)
                }
                text = json.dumps(values, skipkeys=True, default=_type_of)
                place = f"{_UNKNOWN}{zlib.crc32(text.encode()):08x}"
            places[name] = f"{type(publisher).__qualname__}: {place}".removesuffix(": ")
    return places


def _type_of(value: object) -> str:
    """A path as text; of other values without a JSON form the type only."""
    return str(value) if isinstance(value, PurePath) else type(value).__qualname__


def _alike_on_driver(before: Operator, after: Operator) -> bool:
    """True if the driver's halves of two operators are alike: one class, with the same properties."""
    return type(before) is type(after) and same_values(_properties(before), _properties(after))


def _properties(operator: Operator) -> dict[str, object]:
    values = vars(operator)
    return {name: values[name] for name in operator_type(type(operator)).properties if name in values}
