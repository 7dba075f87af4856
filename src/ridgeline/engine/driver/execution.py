"""Executors run the containers of a window: in slots, or in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ridgeline.api.errors import Failure
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowRequest
from ridgeline.stram.control import ExecutorEvent


class WindowExecutor(Protocol):
    """Runs all containers of a plan, window by window. One thread at a time calls all but `wake`.

    The outcome of an attempt is an event for STRAM: one `ContainerReported` for each container, in any order,
    or one `AttemptFailed` or more. Inputs that have something again are another one, `InputAwake`,
    and containers that live in another slot are one more, `ContainersMoved`.
    """

    capacity: int
    """The most windows that may be in flight, at least 1.

    1 also says that containers need not keep their state from window to window: each request has `states`.
    """

    @property
    def slots(self) -> int | None:
        """How many slots the containers could have now; None if they do not live in slots. From any thread.

        May ask the JVM, a few milliseconds.
        """

    waits: bool
    """True if `poll` waits: events may come also while no window is under way."""

    def open(self) -> None:
        """Begin to get ready for the first window; may return before it is. Raises as `begin`.

        Called in a thread whose settings in Spark are those of the application as a whole. That of `begin`
        may have those of a streaming query.
        """

    def begin(self, request: WindowRequest, source: Any) -> float:
        """Have all containers run an attempt; returns when it was sent to them (wall clock).

        `source` is what the window's trigger got from Spark, None for ticks. A request that has `states`
        voids all attempts that were begun before. One with a capacity of 1 may run the attempt to its end
        here. A container that fails is an event, as is a lost process. Raises RidgelineError if no attempt
        can be run any more.
        """

    def poll(self, seconds: float) -> Sequence[ExecutorEvent]:
        """The events since the last call; waits at most `seconds` for the first one.

        May return events of attempts that are void. Raises as `begin`, and what `committed` raises where that
        does not wait for the operators.
        """

    def kill(self, host: str, pid: int, reason: str) -> bool:
        """End the process of a slot at once; False if it is none of this run. From any thread."""

    def wake(self) -> None:
        """Let `poll` return at once, the present call or the next. From any thread."""

    def committed(self, window_id: int, states: Mapping[int, StateVersion]) -> None:
        """A window is committed: call `committed` of the operators that override it.

        `states`: the versions after the window. May return before they were called. Raises OperatorError.
        """

    def prepare(self, plan: Plan) -> None:
        """Get ready for a change to another plan beside the windows; returns soon. Raises RidgelineError.

        `prepared` says when it is. `change` or `abandon` follows.
        """

    def check(self, plan: Plan) -> None:
        """Raise RidgelineError if `prepare` would refuse a plan; nothing is taken. Any thread may call it."""

    @property
    def prepared(self) -> bool:
        """True if `change` to the plan that is prepared would take no longer than it must."""

    def change(self, plan: Plan) -> None:
        """Run the containers of this plan from now on; no window is under way.

        Parts that the plan does not touch stay: operators with their instances, containers in their
        processes. The next request names the states. It may be a plan that was not prepared: the one before,
        to which the run returns. Raises RidgelineError.
        """

    def abandon(self) -> None:
        """The plan that was prepared is not used."""

    def close(self, *, at_once: bool = False) -> Sequence[Failure]:
        """Tear the containers down, in bounded time. Returns failures of it that must not fail the run.

        `at_once`: windows under way are void; nobody waits for a container that is at work.
        """
