"""Rewinds a checkpoint: the run starts again from a window that is kept.

The rewind is one record of the journal. It repeats what was durable as of the old window, under a number
later than all that were committed, so numbers only grow. Before that record is there, nothing has changed.
After it, outputs carry out what the record says of them, at this start or at the next one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ridgeline.api.clock import Clock
from ridgeline.api.errors import CheckpointError, RidgelineError
from ridgeline.api.operator import InputOperator
from ridgeline.api.publisher import PublisherContext
from ridgeline.api.state import ValueCell
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.state_moves import check_states
from ridgeline.engine.driver.inputs import enumerator_context
from ridgeline.engine.driver.outputs import Outputs, operators_of, places_of, publishers_of, staying
from ridgeline.engine.state.compaction import cells_of
from ridgeline.engine.state.integrity import FileCheck
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.versions import load
from ridgeline.plan.execution import Plan

_log = logging.getLogger(__name__)


def rewind(
    checkpoint: Checkpoint,
    plan: Plan,
    window_id: int,
    clock: Clock,
    context: Callable[[str], PublisherContext],
    planner: Planner | None = None,
    check: Callable[[Plan, Manifest], None] | None = None,
) -> Manifest:
    """Let the run of a checkpoint continue after a kept window; returns what is durable now.

    `plan`: that of the last committed window. `planner`: gives the plan as of another one, which it may have
    been changed since. `check`: raises if the sources of that plan cannot begin after that window; its states
    are checked, too. Nothing is done for the last window itself. Raises CheckpointError if the run, or an
    input, cannot go back so far. Raises RidgelineError if an output cannot take back what it has shown since.
    Nothing has changed then.
    """
    last = checkpoint.last()
    kept = rewindable(checkpoint)
    target = next((manifest for manifest in kept if manifest.window_id == window_id), None)
    if last is None or target is None:
        raise _not_kept(checkpoint, window_id, [manifest.window_id for manifest in kept])
    if target.window_id == last.window_id:
        return last
    way = _Way(checkpoint, plan, last, clock, planner)
    going = way.plan_of(target)
    if wrong := way.wrong(target):
        raise _refused(f"cannot rewind to window {window_id}: {wrong}", target, kept, way.is_open)
    if check is not None:
        check(going, target)
        check_states(going, checkpoint, planner, target)
    at = _number(going, target.window_id, last.window_id)
    offsets = target.offsets
    if offsets is not None and last.offsets is not None:  # as of windows: the numbers of Spark only grow
        offsets = replace(offsets, batch=last.offsets.batch + 1)
    outputs = Outputs(plan, clock, context)
    try:
        outputs.open(plan, last.publishers, last.window_id)
        outputs.publish_again(last.window_id, last.publishers)
        try:
            found = _taken_back(outputs, target, at)
        except _CannotError as error:

            def is_open(window: Manifest) -> bool:
                return _can_take_back(outputs, window, last.window_id + 1) and way.is_open(window)

            raise _refused(str(error), target, kept, is_open) from error
    finally:
        outputs.abandon()
    stay = {*_places(going), *staying(operators_of(plan), going, found)}
    rewound = replace(
        target,
        window_id=at,
        epoch=checkpoint.epoch,
        publishers={name: state for name, state in found.items() if state is not None and name in stay},
        offsets=offsets,
        rewound_to=window_id,
        passed_over=target.passed_over + at - window_id,
    )
    checkpoint.commit(rewound)
    return rewound


def rewound(
    checkpoint: Checkpoint,
    plan: Plan,
    planner: Planner | None,
    clock: Clock,
    context: Callable[[str], PublisherContext],
    check: Callable[[Plan, Manifest], None],
) -> Plan:
    """The plan of a start, after the rewind that was asked for, if one was. Raises as `rewind`."""
    if planner is None or planner.from_window is None:
        return plan
    made = rewind(checkpoint, plan, planner.from_window, clock, context, planner, check)
    text, application = "rewound to window %d, which is window %d now", plan.logical.application
    _log.info(text, planner.from_window, made.window_id, extra={"application": application})
    return planner.settled(made)


class _CannotError(RidgelineError):
    """An output cannot take back what it has shown since a window; it may since a later one."""


def _refused(
    wrong: str, target: Manifest, kept: Sequence[Manifest], works: Callable[[Manifest], bool]
) -> CheckpointError:
    """That the run cannot go back to a window, with the earliest one that works."""
    later = (one.window_id for one in reversed(kept) if target.window_id < one.window_id and works(one))
    earliest = next(later, None)
    remedy = f"rewind to window {earliest} or later, or"
    if earliest is None:
        remedy = "no kept window works with what is there:"
    return CheckpointError(f"{wrong}; {remedy} start anew with another `--checkpoint`")


def _taken_back(outputs: Outputs, window: Manifest, at: int) -> dict[str, object]:
    """The states that publishers, which are open, continue from. They have changed nothing then.

    Raises _CannotError; another RidgelineError if an output never can.
    """
    states = dict[str, object]()
    for name, publisher in outputs.publishers.items():
        try:
            states[name] = publisher.rewind(window.window_id, window.publishers.get(name), at)
        except NotImplementedError:
            what = f"`{name}` cannot take back what it has published after window {window.window_id}"
            remedy = f"give `{type(publisher).__name__}` a `rewind`"
            raise RidgelineError(f"{what}; {remedy}, or start anew with another `--checkpoint`") from None
        except RidgelineError as error:
            raise _CannotError(str(error)) from error
    return states


def _can_take_back(outputs: Outputs, window: Manifest, at: int) -> bool:
    try:
        _taken_back(outputs, window, at)
    except RidgelineError:
        return False
    return True


def _places(plan: Plan) -> dict[str, str]:
    """The outputs of a plan whose results last, and where they publish. Raises RidgelineError."""
    return places_of(plan, publishers_of(plan, {}))


@dataclass(frozen=True, slots=True)
class _Way:
    """What is asked before a rewind changes anything. `plan`: that of the start."""

    checkpoint: Checkpoint
    plan: Plan
    last: Manifest
    clock: Clock
    planner: Planner | None

    def plan_of(self, window: Manifest) -> Plan:
        """The plan as of a window. Raises RidgelineError."""
        same = self.planner is None or list(window.edits) == list(self.last.edits)
        return self.plan if same else self.planner.settled(window)  # type: ignore[union-attr]

    def is_open(self, window: Manifest) -> bool:
        """Whether the run can go back to a window, as far as is known without asking outputs."""
        try:
            return not self.wrong(window)
        except RidgelineError:
            return False

    def wrong(self, window: Manifest) -> str:
        """Why the run cannot go back to a window; empty if it can, as far as outputs are not asked."""
        plan = self.plan_of(window)
        return self._elsewhere(window, plan) or self._unread(window, plan)

    def _elsewhere(self, target: Manifest, going: Plan) -> str:
        """The output that was elsewhere since a window, so that what it has shown there would stay."""
        now = _places(self.plan)
        for window in not_left(self.checkpoint.kept()):
            was = window.outputs
            if window.window_id == target.window_id and was == now:
                was = _places(going)
            if was != now:
                name = min(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
                how = "was another one, or elsewhere," if name in now else "is gone; it was there"
                found = f"the output `{name}` {how if name in was else 'was not there'}"
                wrong = (
                    f"{found} in window {window.window_id}, so not all that was shown since can be taken back"
                )
                is_last = window.window_id == self.last.window_id
                return f"{wrong}; start with it as it was" if is_last else wrong
            if window.window_id == target.window_id:
                break
        return ""

    def _unread(self, window: Manifest, plan: Plan) -> str:
        """The input that has not any more what came after a window."""
        files = SegmentFiles(self.checkpoint.storage, self.checkpoint.run_id)
        for one in plan.physical.operators:
            operator, text = one.operator, ""
            if not isinstance(operator, InputOperator):
                continue
            enumerator = operator.enumerator()
            if enumerator is not None and one.partition == 0:
                then, now = window.inputs.get(one.name), self.last.inputs.get(one.name)
                context = enumerator_context(self.plan, one.name, self.checkpoint, self.clock)
                text = enumerator.unreachable(context, then, now)
            elif type(operator).unreachable is not InputOperator.unreachable:
                cells = cells_of(one)
                load(files, one.state_key, cells, window.states.get(one.state_key, ()))
                states = {name: cell.get() for name, cell in cells.items() if isinstance(cell, ValueCell)}
                text = operator.unreachable(states)
            if text:
                return f"`{one.name}` cannot go back so far: {text.removeprefix(f'`{one.name}`: ')}"
        return ""


def rewindable(checkpoint: Checkpoint) -> list[Manifest]:
    """The windows that the run can start again from, newest first; all their state files are whole."""
    check = FileCheck(SegmentFiles(checkpoint.storage, checkpoint.run_id), thoroughly=True)
    return [
        manifest
        for manifest in not_left(checkpoint.kept())
        if not any(check.fault(version) for version in manifest.states.values())
    ]


def offered(checkpoint: Checkpoint, limit: int) -> list[Manifest]:
    """The newest windows of `rewindable` while a run is under way, at most `limit`; files are not read.

    From any thread. Raises CheckpointError, OSError.
    """
    check = FileCheck(SegmentFiles(checkpoint.storage, checkpoint.run_id), thoroughly=False)
    whole = (one for one in not_left(checkpoint.kept()) if check.has_all(one.files))
    return list(islice(whole, limit))


def not_left(kept: Iterable[Manifest]) -> Iterator[Manifest]:
    """The kept windows without those that a rewind has left behind: their output was taken back."""
    left, before = math.inf, math.inf
    for manifest in kept:
        if manifest.window_id > left or manifest.window_id >= before:
            continue
        yield manifest
        before = manifest.window_id
        if manifest.rewound_to is not None:
            left = min(left, manifest.rewound_to)


def _number(plan: Plan, target: int, last: int) -> int:
    """The next number that is at the same place in the application windows of all operators."""
    names = ("application_window_count", "slide_by_window_count")
    counts = (operator.attributes[name] or 1 for operator in plan.logical.operators for name in names)
    period = math.lcm(*counts)
    return last + 1 + (target - last - 1) % period


def _not_kept(checkpoint: Checkpoint, window_id: int, kept: list[int]) -> RidgelineError:
    found = "it has none yet"
    if kept:
        found = f"it can be rewound to {', '.join(map(str, reversed(kept)))}"
    more = "the attribute `windows_kept` says how many are kept"
    return CheckpointError(
        f"checkpoint folder `{checkpoint.storage.uri}` cannot be rewound to window {window_id}: "
        f"{found}; {more}"
    )
