"""Outputs take back in a rewind what they showed, at every place of the windows that become void.

The publishers that are open take back where they are. At other places, where an output was before, or of
operators that are no more, publishers are made of the states that windows keep. What those have to do is in
the rewind's record. It is done at the start after it, before the first window, and again if a driver dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from ridgeline.api.errors import CheckpointError, FencedError, RidgelineError
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.api.support.pickling import class_of
from ridgeline.engine.driver.checkpoint.manifest import Left, Manifest
from ridgeline.engine.driver.outputs import Outputs, call_on_driver, is_unknown
from ridgeline.plan.execution import Plan

_FILES = "ridgeline.operators._file_publisher:FilePublisher"
"""The publisher of files, which windows of earlier versions do not name."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """An output at one place. `windows`: those that it published there, the newest first.

    `is_open`: its publisher is that of the last window's plan. `stays`: it continues there.
    """

    operator: str
    place: str
    windows: Sequence[Manifest]
    maker: str | None
    is_open: bool
    stays: bool


@dataclass(slots=True)
class TakingBack:
    """The work on outputs that a rewind to a window needs.

    `windows`: those that become void, and the target of the rewind, the newest first. `outputs`: those of the
    last window, which are open. `going`: those that continue; nothing is done with them.
    """

    windows: Sequence[Manifest]
    outputs: Outputs
    going: Outputs
    changed: Mapping[str, bool] = field(init=False)
    """The outputs that are not the same in both plans; True: what one of them has shown lasts."""
    _shown: list[_Shown] = field(init=False)

    def __post_init__(self) -> None:
        self._shown = list(self._find())
        other = self.going is not self.outputs
        self.changed = self.outputs.changed(self.going.plan) if other else {}

    @property
    def target(self) -> Manifest:
        """The target of the rewind."""
        return self.windows[-1]

    def _find(self) -> Iterator[_Shown]:
        places = {one.window_id: places_of(one) for one in self.windows}
        for name in sorted({name for found in places.values() for name in found}):
            for place in dict.fromkeys(found[name] for found in places.values() if name in found):
                windows = [one for one in self.windows if places[one.window_id].get(name) == place]
                is_open = self.outputs.places.get(name) == place
                stays = self.going.places.get(name) == place
                yield _Shown(name, place, windows, _maker(name, place, windows[0]), is_open, stays)

    def check(self) -> None:
        """Raise CheckpointError if an output can take nothing back, at one of its places."""
        stuck = [one for one in self._shown if one.maker is None and not (one.is_open and one.stays)]
        seen = {one.operator for one in self._shown}
        for name, lasting in self.changed.items():
            if lasting and (name not in seen or any(one.operator == name for one in stuck)):
                what = f"the output `{name}` was added, removed or changed while the application ran, after"
                msg = f"{what} window {self.target.window_id}, so what it has shown would stay; "
                msg += "rewind to a later window"
                raise CheckpointError(msg)
        for name in dict.fromkeys(one.operator for one in stuck):
            self._refuse(name, [(w, one.place) for one in stuck if one.operator == name for w in one.windows])
        for one in self._shown:  # before it was gone, it may have been another one
            if one.maker is None and is_unknown(one.place):
                without = [
                    w.window_id for w in self.windows if one.operator not in (w.outputs or [one.operator])
                ]
                self._refuse(
                    one.operator,
                    [(w, one.place) for w in one.windows if w.window_id < max(without, default=-1)],
                )
        known = seen | self.outputs.publishers.keys() | self.changed.keys()
        if gone := sorted(self.target.publishers.keys() - known):
            what = f"window {self.target.window_id} had the output `{gone[0]}`, which the application"
            what += " has no more"
            remedy = "start with it, or rewind to a later window"
            msg = f"{what}, so what it has shown since would stay; {remedy}"
            raise CheckpointError(msg)

    def _refuse(self, name: str, found: Sequence[tuple[Manifest, str]]) -> None:
        """Raise CheckpointError if an output was another one in windows that would be void."""
        if not found:
            return
        ordered = sorted((window.window_id, place) for window, place in found)
        first, (last, place) = ordered[0][0], ordered[-1]
        which = f"window {first}" if first == last else f"windows {first} to {last}"
        was = "was another one, or had other properties," if is_unknown(place) else f"was `{place}`"
        ended = last == self.windows[0].window_id
        remedy = "start with it as it was" if ended else f"rewind to a window after {last}"
        msg = (
            f"cannot rewind to window {self.target.window_id}: the output `{name}` {was} in {which}, so what "
        )
        msg += f"it has shown there would stay; {remedy}, or start anew with another `--checkpoint`"
        raise CheckpointError(msg)

    def prepare(
        self, context: Callable[[str], PublisherContext], at: int
    ) -> tuple[dict[str, object], list[Left]]:
        """Ask publishers what they have to do, under the number `at`. They have changed nothing then.

        Returns the states that outputs continue from, and what is to be done at places that are left. Raises
        RidgelineError if a publisher cannot.
        """
        target, publishers, left = self.target, dict[str, object](), list[Left]()
        for one in self._shown:
            home = places_of(target).get(one.operator, self.going.places.get(one.operator))
            as_of = target.publishers.get(one.operator) if home == one.place else None
            publisher = self.outputs.publishers[one.operator] if one.is_open else None
            if publisher is not None:
                state = self._rewound(one.operator, publisher, as_of, at)
            else:
                state = self._rewound_elsewhere(one, context(one.operator), as_of, at)
            if home == one.place and state is not None:
                publishers[one.operator] = state
            if one.maker is not None and not (home == one.place and one.stays):
                left.append(Left(one.operator, one.maker, state))
        for name in self.outputs.publishers.keys() - {one.operator for one in self._shown}:
            as_of = target.publishers.get(name)
            state = self._rewound(name, self.outputs.publishers[name], as_of, at)
            if state is not None and name not in self.changed:
                publishers[name] = state
        return publishers, left

    def _rewound(self, name: str, publisher: Publisher, state: object, at: int) -> object:
        window_id = self.target.window_id
        try:
            return publisher.rewind(window_id, state, at)
        except NotImplementedError:
            what = f"`{name}` cannot take back what it has published after window {window_id}"
            remedy = f"give `{type(publisher).__name__}` a `rewind`"
            raise RidgelineError(f"{what}; {remedy}, or start anew with another `--checkpoint`") from None

    def _rewound_elsewhere(self, one: _Shown, context: PublisherContext, as_of: object, at: int) -> object:
        """The same of a place where no publisher is open."""
        newest, window_id = one.windows[0], self.target.window_id
        state = newest.publishers.get(one.operator)
        made = _Made(self.outputs.plan.logical.application, newest.window_id, one.operator, one.maker, state)
        try:
            made.open(context)
            return self._rewound(one.operator, made.publisher, as_of, at)
        except FencedError:
            raise
        except RidgelineError as error:
            which = f"what `{one.operator}` has shown up to window {newest.window_id} cannot be taken back"
            raise CheckpointError(f"cannot rewind to window {window_id}: {which}: {error}") from error
        finally:
            made.abandon()


def take_back_left(plan: Plan, window: Manifest | None, context: Callable[[str], PublisherContext]) -> None:
    """Take back what a rewind to this window has left to do at places where no output continues.

    Done before outputs are opened. It may be repeated. Raises RidgelineError if a publisher cannot.
    """
    if window is None:
        return
    for operator, maker, state in window.left:
        made = _Made(plan.logical.application, window.window_id, operator, maker, state)
        try:
            made.open(context(operator))
            made.close()
        except BaseException:
            made.abandon()
            raise


class _Made:
    """A publisher that is made of a state alone, for where the run publishes no more."""

    def __init__(
        self, application: str, window_id: int, operator: str, maker: str | None, state: object
    ) -> None:
        """Make it. Raises RidgelineError if its class is gone or refuses the state."""
        self._where = application, operator, window_id
        self._state = state
        kind = None if maker is None else class_of(maker)
        if kind is None or not issubclass(kind, Publisher):
            what = (
                f"`{operator}`: the class `{maker}` of its publisher is gone, which is to take results back"
            )
            raise RidgelineError(f"{what}; put it back to where it was")
        self.publisher: Publisher = self._call("of_state", kind.of_state, state)

    def open(self, context: PublisherContext) -> None:
        self._call("open", self.publisher.open, context, self._state)

    def close(self) -> None:
        self._call("close", self.publisher.close)

    def abandon(self) -> None:
        with suppress(Exception):
            self.publisher.abandon()

    def _call(self, callback: str, function: Callable[..., Any], *arguments: object) -> Any:
        application, operator, window_id = self._where
        return call_on_driver(application, operator, callback, window_id, function, *arguments)


def places_of(window: Manifest) -> Mapping[str, str]:
    """Where outputs published a window. Windows of earlier versions say so of files only."""
    if window.outputs is not None:
        return window.outputs
    return {
        name: f"FilePublisher: {state['format']} files in {state['path']}"
        for name, state in window.publishers.items()
        if _is_of_files(state)
    }


def _is_of_files(state: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(state, Mapping) and {"path", "format", "pending"} <= state.keys()


def _maker(operator: str, place: str, window: Manifest) -> str | None:
    """The class of a publisher that can be made of what a window keeps; None: there is none."""
    state = window.publishers.get(operator)
    files = place.startswith("FilePublisher: ") and _is_of_files(state)
    return window.makers.get(operator, _FILES if files else None)
