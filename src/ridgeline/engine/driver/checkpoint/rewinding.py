"""Rewinds a checkpoint: the run starts again from a window that is kept.

The rewind is one record of the journal. It repeats what was durable as of the old window, under a number
later than all that were committed, so numbers only grow. Before that record is there, nothing has changed.
After it, outputs carry out what the record says of them, at this start or at the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from ridgeline.api.clock import Clock
from ridgeline.api.enumerator import EnumeratorContext
from ridgeline.api.errors import CheckpointError, RidgelineError
from ridgeline.api.operator import InputOperator
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.outputs import Outputs
from ridgeline.engine.state.integrity import FileCheck
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.execution import Plan


def rewind(
    checkpoint: Checkpoint,
    plan: Plan,
    window_id: int,
    clock: Clock,
    context: Callable[[str], PublisherContext],
    settled: Callable[[Manifest], Plan] | None = None,
    check: Callable[[Plan, Manifest], None] | None = None,
) -> Manifest:
    """Let the run of a checkpoint continue after a kept window; returns what is durable now.

    `plan`: that of the last committed window. `settled`: gives the plan as of another one, which it may have
    been changed since. `check`: raises if that plan cannot run with the states of that window. Nothing is
    done for the last window itself. Raises CheckpointError if the run, or an input, cannot go back so far.
    Raises RidgelineError if an output cannot take back what it has shown since. Nothing has changed then.
    """
    last = checkpoint.last()
    kept = rewindable(checkpoint)
    target = next((manifest for manifest in kept if manifest.window_id == window_id), None)
    if last is None or target is None:
        raise _not_kept(checkpoint, window_id, [manifest.window_id for manifest in kept])
    if target.window_id == last.window_id:
        return last
    outputs = going = Outputs(plan, clock)
    if list(target.edits) != list(last.edits):
        plan = plan if settled is None else settled(target)
        going = Outputs(plan, clock)
    _check_outputs(checkpoint, target, outputs, going)
    _check_inputs(checkpoint, going.plan, target, last, kept, clock)
    changed = outputs.changed(going.plan) if going is not outputs else {}
    if check is not None:
        check(plan, target)
    at = _number(plan, target.window_id, last.window_id)
    offsets = target.offsets
    if offsets is not None and last.offsets is not None:  # as of windows: the numbers of Spark only grow
        offsets = replace(offsets, batch=last.offsets.batch + 1)
    publishers = dict[str, object]()
    try:
        outputs.open(context, last.publishers, last.window_id)
        outputs.publish_again(last.window_id, last.publishers)
        for name, publisher in outputs.publishers.items():
            state = _rewound(name, publisher, target, at)
            if state is not None and (name in going.places or name not in changed):
                publishers[name] = state
    finally:
        outputs.abandon()
    rewound = replace(
        target,
        window_id=at,
        epoch=checkpoint.epoch,
        publishers=publishers,
        offsets=offsets,
        rewound_to=window_id,
        passed_over=target.passed_over + at - window_id,
    )
    checkpoint.commit(rewound)
    return rewound


def _check_outputs(checkpoint: Checkpoint, target: Manifest, outputs: Outputs, going: Outputs) -> None:
    """Raise CheckpointError if what outputs have shown since the target is not all where they are now."""
    earliest = None
    for window in not_left(checkpoint.kept()):
        was, now = window.outputs, outputs.places
        if window.window_id == target.window_id and was == now:
            was = going.places
        if was != now:
            name = min(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
            how = "was another one, or elsewhere," if name in now else "is gone; it was there"
            found = f"the output `{name}` {how if name in was else 'was not there'}"
            remedy = (
                "start with it as it was" if earliest is None else f"rewind to window {earliest} or later"
            )
            msg = f"cannot rewind to window {target.window_id}: {found} in window {window.window_id}, so not "
            msg += "all that was shown since can be taken back"
            raise CheckpointError(f"{msg}; {remedy}, or start anew with another `--checkpoint`")
        earliest = window.window_id
        if window.window_id == target.window_id:
            break


def _check_inputs(
    checkpoint: Checkpoint,
    plan: Plan,
    target: Manifest,
    last: Manifest,
    kept: Sequence[Manifest],
    clock: Clock,
) -> None:
    """Raise CheckpointError if an input has not any more what came after the target."""
    operators = {one.name: one.operator for one in plan.logical.operators}

    def why(manifest: Manifest) -> str:
        for name, operator in operators.items():
            one = operator.enumerator() if isinstance(operator, InputOperator) else None
            if one is None:
                continue
            context = EnumeratorContext(
                application=plan.logical.application,
                operator=name,
                run_id=checkpoint.run_id,
                clock=clock,
                wake=lambda: None,
                check_owner=checkpoint.check_owner,
                warn=lambda _text: None,
                partitions=lambda: 1,
                staging=f"{checkpoint.storage.uri}/staging",
                windows_kept=plan.logical.attributes["windows_kept"],
            )
            if text := one.unreachable(context, manifest.inputs.get(name), last.inputs.get(name)):
                return f"`{name}` cannot go back so far: {text.removeprefix(f'`{name}`: ')}"
        return ""

    if not (wrong := why(target)):
        return
    later = (one.window_id for one in reversed(kept) if target.window_id < one.window_id and not why(one))
    works = next(later, None)
    remedy = "no kept window can be gone back to" if works is None else f"rewind to window {works} or later"
    raise CheckpointError(f"cannot rewind to window {target.window_id}: {wrong}; {remedy}")


def _rewound(name: str, publisher: Publisher, target: Manifest, at: int) -> object:
    """The state that a publisher continues from. It has changed nothing then. Raises RidgelineError."""
    try:
        return publisher.rewind(target.window_id, target.publishers.get(name), at)
    except NotImplementedError:
        what = f"`{name}` cannot take back what it has published after window {target.window_id}"
        remedy = f"give `{type(publisher).__name__}` a `rewind`"
        raise RidgelineError(f"{what}; {remedy}, or start anew with another `--checkpoint`") from None


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
    whole = (
        manifest
        for manifest in not_left(checkpoint.kept())
        if all(check.exists(name) for version in manifest.states.values() for name in version)
    )
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
