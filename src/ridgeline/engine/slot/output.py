"""The output of a slot: blocks and ends of containers to other slots, reports to STRAM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ridgeline.api.clock import Clock
from ridgeline.api.support.pickling import dumps
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.slot.attempts import Attempt
from ridgeline.engine.slot.messages import Between, Blocks, Finished, FromSlot, Reported
from ridgeline.engine.slot.wiring import Wiring
from ridgeline.plan.protocol import WindowReport


class SlotOutput:
    """The messages of one slot that wait to be sent, in their order.

    `to_stram`: those to STRAM. `reports`: those that wait for others, and since when (monotonic clock).
    """

    def __init__(self, slot: int, clock: Clock) -> None:
        self.to_stram: list[FromSlot] = []
        self.reports: list[tuple[WindowReport, float]] = []
        self._slot = slot
        self._clock = clock
        self._to_slots: list[tuple[int, Between]] = []
        self._last: dict[int, int] = {}
        """Where in `_to_slots` the last blocks of the container that ran are, by slot."""
        self._reported = 0
        """The latest window among the reports that wait."""

    def take(self) -> tuple[Sequence[tuple[int, Between]], Sequence[FromSlot]]:
        """The messages to send now: to slots, by number, then to STRAM."""
        taken = self._to_slots, self.to_stram
        self._to_slots, self.to_stram = [], []
        return taken

    def add_report(self, report: WindowReport) -> None:
        """A container has run a window."""
        self.reports.append((report, self._clock.monotonic()))
        self._reported = report.window.window_id

    def report(self, next_window: float, fail: Callable[[WindowReport, Exception], None]) -> None:
        """Send the reports that wait, together, if `next_window`, which runs next, is a later one.

        `fail` is called for a report that cannot be pickled.
        """
        if not self.reports or next_window <= self._reported:
            return
        held, self.reports = self.reports, []
        now = self._clock.monotonic()
        for report, since in held:
            report.held_seconds = now - since
        reports = [report for report, _ in held]
        try:
            self.to_stram.append(Reported(dumps(tuple(reports))))
        except Exception:  # noqa: BLE001  the one that cannot be pickled is found below
            good = []
            for report in reports:
                try:
                    dumps(report)
                except Exception as error:  # noqa: BLE001  reported
                    fail(report, error)
                else:
                    good.append(report)
            if good:
                self.to_stram.append(Reported(dumps(tuple(good))))

    def add_blocks(self, attempt: Attempt, outgoing: Mapping[int, Message], slots: Mapping[int, int]) -> None:
        """Send what a container made: to others of this slot as it is. `slots`: of all consumers."""
        self._last.clear()
        for consumer, message in outgoing.items():
            target = slots[consumer]
            if target == self._slot:
                attempt.inboxes.setdefault(consumer, []).append(message)
                continue
            for part in message.divided():
                self._last[target] = len(self._to_slots)
                self._to_slots.append((target, Blocks(attempt.window_id, attempt.number, consumer, part)))

    def add_end(self, attempt: Attempt, container: int, tag: str, wiring: Wiring) -> None:
        """END_WINDOW of a container: to another slot once a container there waits for no other of here.

        It goes with the container's last blocks if there are any.
        """
        for target in wiring.targets[container]:
            attempt.unsent.setdefault(target, {})[container] = tag
        for group in wiring.outputs.of.get(container, ()):
            attempt.unfed[group] -= 1
            if not attempt.unfed[group]:
                target = wiring.slot_of[group]
                ended = attempt.unsent.pop(target, None)
                if ended is None:
                    continue
                last = self._last.pop(target, None)
                if last is None:
                    self._to_slots.append((target, Finished(attempt.window_id, attempt.number, ended)))
                    continue
                blocks = self._to_slots[last][1]
                assert isinstance(blocks, Blocks)  # noqa: S101  as `_last` says
                self._to_slots[last] = target, replace(blocks, ended=ended)
