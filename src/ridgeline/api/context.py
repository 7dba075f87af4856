"""What an operator knows about where and when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ridgeline.api.clock import Clock


class OperatorContext:
    """`self.context` of a running operator.

    `name` (logical), `application`, `partition` (0 to `partitions` - 1), `window_id` (of the streaming window
    that runs; -1 before the first), `window_seconds` (the width of one), `clock`; `attempt` counts how often
    this window has been tried before, `container_attempt` is unique to the attempt; `run_id` is the same for
    all runs on one checkpoint; `staging` is the URI of a folder inside of the checkpoint for files that wait
    for the commit.
    """

    def __init__(  # noqa: PLR0913  all that the engine tells
        self,
        *,
        application: str,
        name: str,
        operator_id: int,
        partition: int,
        partitions: int,
        clock: Clock,
        run_id: str,
        staging: str = "",
        window_seconds: float = 1.0,
    ) -> None:
        self.application = application
        self.name = name
        self.operator_id = operator_id
        self.partition = partition
        self.partitions = partitions
        self.clock = clock
        self.run_id = run_id
        self.staging = staging
        self.window_seconds = window_seconds
        self.window_id = -1
        self.attempt = 0
        self.container_attempt = ""
        self._handed_over: list[Any] = []
        self.on_expected: Callable[[str, float], None] | None = None
        """What the platform does with `expect_outputs`."""

    def hand_over(self, value: Any) -> None:
        """Give a picklable value to this operator's `Publisher` on the driver; it gets it if and only if the window is committed.

        Raises nothing; call it in a window.
        """
        self._handed_over.append(value)

    @property
    def handed_over_count(self) -> int:
        """How many values were handed over and not taken."""
        return len(self._handed_over)

    def take_back(self, count: int) -> None:
        """Forget all values handed over but the first `count`."""
        del self._handed_over[count:]

    def expect_outputs(self, port: str, remaining: float) -> None:
        """Say how many tuples are still to come on an output port for what is being processed: the tuple, the batch, or an input's window.

        For callbacks that take long: progress and seconds left follow from it. Say it again as the estimate
        gets better; what is emitted afterwards is subtracted. Negative: there is no end. Costs about a
        microsecond. Raises nothing.
        """
        if self.on_expected is not None:
            self.on_expected(port, remaining)

    def take_handed_over(self) -> list[Any]:
        """What was handed over since the last call."""
        values, self._handed_over = self._handed_over, []
        return values
