"""Callbacks that an operator need not have, and checks of the operator after a window."""

from __future__ import annotations

from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import InputOperator, has_finished
from ridgeline.api.push_input import PushInput
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Turn, TurnPart


class IdleTime(TurnPart):
    """Calls `handle_idle_time` in windows with nothing to do (of a `PushInput`: see `input.ask`)."""

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator has none, or is a unifier: it may wait for the window's end."""
        called = not instance.spec.unifier and not isinstance(instance.operator, PushInput)
        return cls(instance) if called and instance.overrides("handle_idle_time") else None

    def after_tuples(self, turn: Turn) -> None:
        """There may have been nothing. Raises OperatorError."""
        if self._is_idle(turn):
            context = self.instance.context
            left = turn.request.ends - context.clock.monotonic()
            context.idle_seconds = max(0.0, min(left, context.window_seconds))
            self.instance.timed("handle_idle_time", self.instance.operator.handle_idle_time)

    def _is_idle(self, turn: Turn) -> bool:
        operator = self.instance.operator
        if isinstance(operator, InputOperator):
            return not has_finished(operator) and not any(
                point.pending for point in self.instance.outputs.values()
            )
        return not turn.came


class BeforeCheckpoint(TurnPart):
    """Calls `before_checkpoint`, the last callback before state is written."""

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator has none."""
        return cls(instance) if instance.overrides("before_checkpoint") else None

    def end(self, turn: Turn) -> None:
        """Call it. Raises OperatorError if it emits."""
        self.instance.timed("before_checkpoint", self._call)

    def _call(self) -> None:
        points, instance = self.instance.outputs.values(), self.instance
        before = [point.pending for point in points]
        instance.operator.before_checkpoint(instance.context.window_id)
        if before != [point.pending for point in points]:
            raise RidgelineError(
                "`before_checkpoint` has emitted, when the window had ended; emit in `end_window`"
            )


class Checks(TurnPart):
    """Refuses emissions by other threads, and changes that a crash would lose where the runner looks."""

    def end(self, turn: Turn) -> None:
        """All its callbacks have returned. Raises OperatorError."""
        self.instance.refuse_strays()
        self.instance.call("end of window", self.instance.inspect)
