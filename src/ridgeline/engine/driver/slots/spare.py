"""The spare slot of an application with `speculation`, and when a late one changes places with it.

The spare has joined, has read the plan and imported its code. A slot that was late is the spare once it has
torn down what it hosted. It says so as any spare does: it has read the plan (`Prepared`). What it had sent
before is read before that, so nothing of it can be taken for what it does later.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ridgeline.api.clock import Clock
from ridgeline.engine.driver.slots.contents import SlotContents
from ridgeline.engine.driver.slots.group import SlotGroup
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.slot.messages import Awake, Failed, FromSlot, Prepare, Prepared, Reported, Unreachable
from ridgeline.plan.execution import Plan
from ridgeline.stram.lateness import LateSlot, Speculation
from ridgeline.stram.slot_attempts import SlotAttempts

_ANSWER_SECONDS = 0.25
"""A slot that runs no callback answers within so long."""


class SpareSlot:
    """Looks which slot is late, and keeps the spare ready. Does nothing without `speculation`.

    The thread of windows calls it. `contents`: what slots host, and what the spare reads.
    """

    def __init__(self, plan: Plan, contents: SlotContents, clock: Clock, warn: Callable[[str], None]) -> None:
        self._contents = contents
        self._clock = clock
        self._warn = warn
        self.speculation = Speculation(plan)
        self._timeout = math.inf
        self._asked: Peer | None = None
        """The process of the spare that was sent the plan."""
        self._since = 0.0
        self._had = False
        """There was a spare."""
        self._called = 0.0
        """When slots that are late together were asked whether they are there."""
        self._silent: set[int] | None = None
        """Those of them that have not answered; None if none was asked."""
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """The containers are those of another plan from now on: the spare must read it, too."""
        self.speculation = Speculation(plan, self.speculation)
        self._timeout = float(plan.logical.attributes["heartbeat_timeout"])
        self.changed()

    def changed(self) -> None:
        """Another slot is the spare, or it is to read another plan."""
        self._asked = None

    # Windows ------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """How long no slot can be late yet."""
        due = self.speculation.due
        return math.inf if due == math.inf else max(0.0, due - self._clock.monotonic())

    def void(self) -> None:
        """All attempts are void."""
        self._silent = None
        self.speculation.void()

    def late(self, attempts: SlotAttempts, group: SlotGroup) -> LateSlot | None:
        """The slot that is late, if the spare is ready for what it hosts.

        Of several, others may wait for the one: they cannot send to it. They are asked to read their plan
        again, and it is the one that does not answer. If there are several of these, another slot would not
        help.
        """
        now, slots = self._clock.monotonic(), self._contents.slots
        late = self.speculation.look(now, slots.home, attempts)
        if not late or not slots.spare_is_ready:
            return None
        if len(late) == 1:
            return late[0]
        if self._silent is None:
            self._called, self._silent = now, {one.slot for one in late}
            for one in late:
                self._ask(group, one.slot)
        elif now >= self._called + _ANSWER_SECONDS:
            found = [one for one in late if one.slot in self._silent]
            if len(found) == 1:
                return found[0]
            self._silent = None
        self.speculation.due = now + _ANSWER_SECONDS
        return None

    # The spare ----------------------------------------------------------------------------------------------

    def _ask(self, group: SlotGroup, slot: int) -> None:
        """Have a slot read its plan."""
        group.send(slot, Prepare(self._contents.storage.uri, self._contents.plans[slot]))

    def look(self, group: SlotGroup) -> None:
        """Have a spare that has come read the plan, and one that stays away for long ended."""
        slots = self._contents.slots
        self._had |= slots.spare is not None
        if self._had and slots.spare is None:
            self._had = False
            self._warn("`speculation` has no effect any more: the spare slot does not start")
        peer = None if slots.spare is None else group.peer(slots.spare)
        now = self._clock.monotonic()
        if peer is None or slots.spare is None:
            self.changed()
        elif peer != self._asked:
            self._asked, self._since = peer, now
            self._ask(group, slots.spare)
        elif not slots.spare_is_ready and now - self._since > self._timeout:
            self._since = now
            member = slots.members[slots.spare]
            group.end_process(member.host, member.pid)

    def take_prepared(self, group: SlotGroup, slot: int, message: Prepared) -> None:
        """A slot has read a plan."""
        slots, plans = self._contents.slots, self._contents.plans
        if self._silent is not None:
            self._silent.discard(slot)
        if slot != slots.spare or message.plan != plans[slot].name or group.peer(slot) != self._asked:
            return
        if message.failure is not None:
            fault = f"the spare slot cannot be used: {message.failure.error}"
            self._warn(f"`speculation` has no effect: {fault}")
            return
        slots.ready()
        if self.speculation.due == math.inf:
            self.speculation.due = self._clock.monotonic()  # a slot may be late already


def is_of_windows(message: FromSlot) -> bool:
    """True if a message is about windows that a slot runs: of the spare it is void, since it was late."""
    if isinstance(message, Failed):
        return message.window_id >= 0
    return isinstance(message, Reported | Awake | Unreachable)
