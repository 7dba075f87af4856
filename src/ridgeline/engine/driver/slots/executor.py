"""Windows in slots: containers that live in long Spark tasks, with several windows in flight."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure, OperatorError, RidgelineError
from ridgeline.engine.driver.heartbeats import Heartbeats, heartbeat_seconds
from ridgeline.engine.driver.slots.contents import Following, SlotChanging, SlotContents
from ridgeline.engine.driver.slots.feed import FeedError, Feeds
from ridgeline.engine.driver.slots.group import (
    GroupEvent,
    SlotCame,
    SlotGone,
    SlotGroup,
    SlotMessage,
)
from ridgeline.engine.driver.slots.health import SUSPICION_SECONDS, SlotHealth, Stuck
from ridgeline.engine.driver.slots.spare import SpareSlot, is_of_windows
from ridgeline.engine.driver.slots.spark_slots import SparkSlots
from ridgeline.engine.driver.slots.start import Shortage, Spreading, attempts_of, choose_slots
from ridgeline.engine.files.storage import DriverStorage
from ridgeline.engine.slot.messages import (
    Awake,
    Committed,
    Failed,
    FromSlot,
    Heartbeat,
    Prepared,
    Reported,
    RunAttempt,
    Unreachable,
)
from ridgeline.measure.events import RunEvent, StateWarning
from ridgeline.measure.slot_events import SlotEvent, SlotKind
from ridgeline.measure.wording.units import plural
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from ridgeline.stram.control import (
    AttemptFailed,
    ContainerReported,
    ContainersMoved,
    ExecutorEvent,
    InputAwake,
)
from ridgeline.stram.patience import Patience
from ridgeline.stram.placement import HostPreference, PlanRules, most_slots
from ridgeline.stram.rules import describe_given_up
from ridgeline.stram.slot_attempts import SlotAttempt, SlotAttempts
from ridgeline.stram.slot_resources import needs_of
from ridgeline.stram.slots import (
    GiveUpRule,
    GiveUpSlot,
    RetireSlot,
    SendAssignments,
    SlotInstruction,
    Slots,
)


class SlotExecutor:
    """Runs the containers of a plan in slots; a `WindowExecutor`. The slots are started by the first window.

    A slot that is lost takes all windows in flight with it: one event says so. The containers' states are
    void then. Requests with states, and those after them, wait until all slots are there again.
    """

    waits = True

    def __init__(
        self,
        platform: SparkSlots,
        plan: Plan,
        storage: DriverStorage,
        run_id: str,
        epoch: int,
        *,
        clock: Clock,
        observe: Callable[[RunEvent], None],
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self.capacity = max(2, int(plan.logical.attributes["windows_in_flight"]))
        self._platform = platform
        self._clock = clock
        self._observe = observe
        interval = None if heartbeats is None else heartbeat_seconds(plan)
        heartbeats = heartbeats or Heartbeats(observe, clock)
        self._contents = SlotContents(plan, storage, run_id, epoch, interval)
        self._sharing = platform.open_sharing()
        self._feeds = Feeds(plan, platform, clock)
        self._commit = -1
        """The last window that was committed, if it is not sent yet: the next `RunAttempt` has it."""
        self._group: SlotGroup | None = None
        self._slots: Slots
        self._events: deque[ExecutorEvent] = deque()
        self._attempts = SlotAttempts(self._contents.stages)
        self._given_up: Failure | None = None
        """Why no slot can take a place: the end, once what else has failed is known."""
        self._woken = False
        self._patience = Patience(platform.patience_seconds)
        self._shortage = Shortage(platform, clock, self._warn, self._give_up)
        self._spreading = Spreading(clock)
        self._spare = SpareSlot(plan, self._contents, clock, self._warn)
        self._changing: SlotChanging | None = None
        self._health = SlotHealth(
            platform,
            self._contents,
            self._attempts,
            heartbeats,
            clock,
            observe,
            self._end_stuck,
        )

    # Windows ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Ask Spark for the slots. Raises RidgelineError if it has too few cores."""
        self._group = self._group or self._start()

    def begin(self, request: WindowRequest, source: object) -> float:
        """Send an attempt to all slots, now or once all are there; returns when (wall clock).

        Raises as `open`.
        """
        self.open()
        group = self._group
        assert group is not None  # noqa: S101  it is open
        complete = self._slots.complete and self._clock.monotonic() >= self._patience.wait_until
        self._send(group, self._attempts.begin(request, source, complete=complete))
        return self._clock.wall()

    def poll(self, seconds: float) -> Sequence[ExecutorEvent]:
        """The events of the windows; waits at most `seconds` for the first one.

        Raises SparkGoneError, WorkerError, and OperatorError if a slot was lost too often or a `committed`
        failed.
        """
        deadline = self._clock.monotonic() + seconds
        self._send_commit()
        while not self._events and not self._woken and self._group is not None and self._given_up is None:
            left = deadline - self._clock.monotonic()
            soon = min(left, SUSPICION_SECONDS, self._feeds.seconds, self._spare.seconds)
            for event in (found := self._group.poll(soon)):
                self._take(self._group, event)
            self._health.heartbeats.report(self._group.refused)
            self._look(self._group)
            if not found:  # all that slots have sent is read
                self._hedge(self._group)
            if left <= 0:
                break
        self._woken = False
        if self._given_up is not None and not self._events:  # what failed in the slot may say more
            raise OperatorError(self._given_up)
        events = list(self._events)
        self._events.clear()
        return events

    def wake(self) -> None:
        """Let `poll` return. From any thread."""
        self._woken = True
        if self._group is not None:
            self._group.wake()

    def committed(self, window_id: int, states: Mapping[int, StateVersion]) -> None:
        """Report it to the slots with the next window or `poll`; remove the blocks of the window.

        An error of an operator's `committed` is raised by a later `poll`.
        """
        self._commit = window_id
        self._sharing.committed(window_id)

    def _send_commit(self) -> None:
        """Send the last commit, if no attempt had it and the slots have states to run on with."""
        if self._commit >= 0 and self._group is not None and self._group.began:
            self._group.send_all(Committed(self._commit))
            self._commit = -1

    def close(self, *, at_once: bool = False) -> Sequence[Failure]:
        """End all slots in order, within 20 s. Returns what failed in `deactivate` and `teardown`."""
        failures: list[Failure] = []
        self._feeds.stop()
        self._send_commit()
        try:
            if self._group is not None:
                failures = self._group.close(at_once=at_once)
                self._health.heartbeats.report(self._group.refused)
        finally:
            self._platform.release()  # also what was claimed for slots that could not be started
        self._health.heartbeats.close()
        if self._changing is not None:
            self._changing.close()
        self._sharing.close()
        return failures

    def kill(self, host: str, pid: int, reason: str) -> bool:
        """As `WindowExecutor.kill`. Counts as none of the attempts at a window."""
        members = [] if self._group is None else list(self._slots.members.values())
        if not any((one.host, one.pid) == (host, pid) for one in members):
            return False
        where = "its slot"
        failure = Failure(self._contents.application, "", 0, -1, where, reason, cluster=True)
        self._health.end(Stuck(host, pid, failure))
        return True

    @property
    def slots(self) -> int | None:
        """As `WindowExecutor.slots`."""
        return self._platform.most() - (self._group is not None and self._slots.spare is not None)

    # Another plan -------------------------------------------------------------------------------------------

    def prepare(self, plan: Plan) -> None:
        """Get the slots ready for a plan, see `SlotChanging`: containers that stay live where they are."""
        if self._changing is not None:
            self._changing.prepare(plan)

    def check(self, plan: Plan) -> None:
        """Raise RidgelineError if no slots could be chosen for a plan."""
        if self._changing is not None:
            self._changing.check(plan)

    @property
    def prepared(self) -> bool:
        """True once all slots have read what they will host."""
        return self._changing is None or self._changing.prepared

    def abandon(self) -> None:
        """Give back what was taken for a plan that is not used."""
        if self._changing is not None:
            self._changing.abandon()

    def change(self, plan: Plan) -> None:
        """Send the slots what lives in them from now on. Raises RidgelineError if that cannot be."""
        if self._group is None or self._changing is None:
            self._take_plan(plan)
            return
        if plan is self._contents.plan:
            self._changing.abandon()
            return
        following = self._changing.take(plan)
        given_back = [slot for slot in self._slots.active if not following.placement[slot]]
        self._platform.release(sum(self._contents.needs[slot].vcores for slot in given_back))
        self._take_plan(plan)
        self._host(following, {})
        self._size()
        if not self._slots.complete:
            self._shortage.wait()

    def _host(self, following: Following, preferences: Mapping[int, HostPreference]) -> None:
        """Have the slots host what was prepared. `preferences`: of slots that have others from now on."""
        self._send_commit()
        self._contents.take(following)
        self._spare.changed()
        rules, attempts = PlanRules(following.plan), attempts_of(following.plan)
        self._follow(self._slots.change(following.placement, rules, attempts, preferences))

    def _follow(self, instructions: Iterable[SlotInstruction]) -> None:
        """Carry out what follows for slots."""
        if self._group is not None:
            for event in self._group.follow(instructions):
                self._take(self._group, event)

    def _take_plan(self, plan: Plan) -> None:
        self._contents.follow(plan)
        self._attempts = SlotAttempts(self._contents.stages)
        self._health.follow(self._attempts)
        self._spare.follow(plan)
        self.capacity = max(2, int(plan.logical.attributes["windows_in_flight"]))

    # The start ----------------------------------------------------------------------------------------------

    def _start(self) -> SlotGroup:
        """Choose how many slots there are and what lives in them, and ask Spark for them."""
        contents, plan = self._contents, self._contents.plan
        placement, needs, spare = choose_slots(self._platform, plan, self._warn)
        rules, capacities = PlanRules(plan), self._platform.capacities()
        patience = self._platform.patience_seconds
        self._slots = contents.slots = Slots(
            placement, attempts_of(plan), rules, capacities, spare=spare, patience_seconds=patience
        )
        contents.place(needs)
        self._shortage.wait()
        self._group = SlotGroup(self._platform, contents, self._clock, self._observe)
        self._changing = SlotChanging(self._platform, contents, self._group, self._clock, self._follow)
        self._size()
        return self._group

    # What is sent, what comes -------------------------------------------------------------------------------

    def _send(self, group: SlotGroup, requests: Iterable[WindowRequest]) -> None:
        """Send attempts to all slots, but for those that are void by now."""
        for request in requests:
            now = self._clock.monotonic()
            attempt = self._attempts.sent(request, now)
            if attempt is None:
                continue
            self._spare.speculation.sent(attempt, now)
            try:
                self._send_attempt(group, attempt)
            except FeedError as error:
                self._fail(error.failure)

    def _send_attempt(self, group: SlotGroup, attempt: SlotAttempt) -> None:
        """Send an attempt with the rows of Spark sources and a place for large blocks. Raises FeedError."""
        request = attempt.request
        place = self._sharing.place(request.window_id, request.attempt)
        fed = self._feeds.prepare(request, attempt.source)
        commit, self._commit = self._commit, -1
        group.send_attempt(RunAttempt(request, place, fed, commit))
        if fed:
            self._feeds.start({container: group.way_to(self._slots.home[container]) for container in fed})

    def _take(self, group: SlotGroup, event: GroupEvent, failure: Failure | None = None) -> None:
        """Take one event of the slots in. `failure`: why a slot is gone, if that is known."""
        match event:
            case SlotMessage(slot, message):
                self._take_message(group, slot, message)
            case SendAssignments():
                self._shortage.over()  # `_look` sends what waits
            case SlotCame(member):
                self._health.joined(member)
            case SlotGone(slot, member):
                self._health.heartbeats.lost(slot)
                if not self._slots.placement[slot]:
                    self._health.ended(member)
                    return
                self._shortage.wait()
                self._fail(failure or self._health.failure(event, self._attempts))
                if slot not in self._slots.members:
                    self._swap_with_spare(slot)
            case GiveUpSlot(slot, reason, jobs):
                what = f"slot {slot} was lost {jobs} times in a row, the last time so: {reason}"
                self._give_up(what, f"slot {slot} ({self._contents.names(slot)})")
            case GiveUpRule(rule, hosts, slots):
                text = describe_given_up(rule, hosts, slots)
                if rule.relax:
                    self._warn(text)
                else:
                    self._give_up(text)

    def _take_message(self, group: SlotGroup, slot: int, message: FromSlot) -> None:
        """Take a message of a slot in. Raises OperatorError if a `committed` failed.

        Reports of the spare on windows are void: it was late with them, and others run them.
        """
        if slot == self._slots.spare and is_of_windows(message):
            return
        match message:
            case Reported(reports):
                for report in pickle.loads(reports):
                    self._reported(report)
            case Heartbeat(figures):
                self._health.heartbeats.take(slot, figures)
            case Awake():
                self._events.append(InputAwake())
            case Prepared() if self._changing is not None:
                self._changing.take_prepared(slot, message)
                self._spare.take_prepared(group, slot, message)
            case Failed(_, window_id, attempt, failure) if attempt >= 0:
                self._health.store_failed(self._slots.members.get(slot), failure)
                self._events.append(AttemptFailed(window_id, attempt, failure))
            case Failed(_, window_id, _, failure) if window_id >= 0:
                raise OperatorError(failure)
            case Failed(_, _, _, failure):  # it could not make its containers: another process may
                for event in group.send_away(slot, failure.error):
                    self._take(group, event, replace(failure, application=self._contents.application))
            case Unreachable():
                self._health.suspect(slot, message)
            case _:
                pass

    def _reported(self, report: WindowReport) -> None:
        """Pass a report on to STRAM, and note whether its attempt is over."""
        window = report.window
        window.received = self._clock.wall()
        self._events.append(ContainerReported(report))
        self._sharing.reported(window.window_id, window.bytes_out)
        now = self._clock.monotonic()
        took = self._attempts.reported(window.window_id, window.attempt, window.container, now)
        if took is None:
            return
        own = (one.window for one in report.operators)
        self._slots.worked(window.container, sum(one.compute_seconds + one.transfer_seconds for one in own))
        over = not self._attempts.runs(window.window_id, window.attempt)
        self._spare.speculation.ended(window.container, took, now, over=over)
        if over:
            self._slots.window_ran()
            self._patience.window_ran()
            self._feeds.over(window.window_id)

    # What is lost -------------------------------------------------------------------------------------------

    def _void(self) -> None:
        """No attempt that was begun counts any more."""
        self._feeds.stop()
        self._sharing.void()
        self._spare.void()

    def _hedge(self, group: SlotGroup) -> None:
        """Have the spare slot run what a late one is late with, if there is one."""
        late = self._spare.late(self._attempts, group)
        if late is None or not self._slots.complete or not self._swap_with_spare(late.slot):
            return
        self._spare.speculation.swapped(late)
        member = self._slots.members[late.slot]
        spare = self._slots.home[late.container]
        text = (
            f"slot {late.slot} (process {member.pid} on `{member.host}`) took {late.seconds * 1000:.0f} ms "
            f"for window {late.window_id}, its past allows {late.limit_seconds * 1000:.0f} ms: "
            f"slot {spare} runs it now"
        )
        where = late.slot, member.host, member.pid
        now, window = self._clock.wall(), late.window_id
        self._observe(SlotEvent(now, "speculated", text, *where, spare=spare, window_id=window))

    def _swap_with_spare(self, slot: int) -> bool:
        """Let the spare host what a slot does, if it can: all that is under way begins again."""
        spare = self._slots.spare
        if spare is None or not self._slots.spare_is_ready:
            return False
        instructions = self._slots.swap_with_spare(slot)
        if not instructions:
            return False
        reason = f"slot {spare} has what slot {slot} was late with, or has lost"
        self._void()
        if slot in self._slots.members:  # else it has failed, as is known
            self._attempts.moved()
            self._events.append(ContainersMoved(reason))
        self._contents.swap(slot, spare)
        self._spare.changed()
        self._follow(instructions)
        return True

    def _fail(self, failure: Failure) -> None:
        """Containers have lost their state, or get no rows: what is in flight has failed."""
        self._void()
        failed = self._attempts.failed(self._patience.failed(failure, self._clock.monotonic()))
        if failed is not None:
            self._events.append(failed)

    def _moved(self, reason: str) -> None:
        """Containers live elsewhere, without their states: all that is under way begins again."""
        self._void()
        self._patience.moved()
        if not self._attempts.waits:
            self._attempts.moved()
            self._events.append(ContainersMoved(reason))

    def _give_up(self, what: str, where: str = "the slots") -> None:
        """No slot can take a place: the application ends."""
        self._given_up = Failure(self._contents.application, "", 0, self._attempts.first_window, where, what)

    def _end_stuck(self, stuck: Stuck) -> None:
        """Have Spark end a process that hangs. From any thread."""
        if self._group is not None:
            self._group.end_process(stuck.host, stuck.pid)

    def _look(self, group: SlotGroup) -> None:
        """Look for slots that others cannot reach, and slots that are awaited for long."""
        now = self._clock.monotonic()
        self._health.check(group.reach.processes, rows_come=self._feeds.reading)
        try:
            self._feeds.look()
        except FeedError as error:
            self._fail(error.failure)
        for failure in self._health.unreachable(group, self._slots.spare):
            self._fail(failure)
        if self._changing is not None:
            self._changing.look()
            self._look_at_spread(group, self._changing)
        self._spare.look(group)
        if self._shortage.due:
            self._look_at_places(group)
            self._shortage.wait()
        if self._slots.complete and self._attempts.waits and now >= self._patience.wait_until:
            self._send(group, self._attempts.all_there())

    # As many slots as are wanted ----------------------------------------------------------------------------

    def _look_at_places(self, group: SlotGroup) -> None:
        """Move the containers to fewer slots if Spark has had too few places for long."""
        contents = self._contents
        before = {slot: contents.needs[slot].vcores for slot in self._slots.active}
        places, instructions = self._shortage.look(self._slots, contents.needs, group.reach.hosts)
        if any(isinstance(one, RetireSlot) for one in instructions):
            self._platform.release(sum(before[slot] for slot in before.keys() - set(self._slots.active)))
            contents.place(needs_of(contents.plan, self._slots.placement, self._platform.given))
            self._spare.changed()
            text = f"Spark has cores for {plural(places, 'slot')} only: "
            text += f"all containers of {len(before)} slots live there now"
            self._observe(SlotEvent(self._clock.wall(), "reduced", text, slots=places))
            self._size()
            what = f"containers live in {places} of {len(before)} slots now"
            self._moved(f"{what}, since Spark has no more cores")
        self._follow(instructions)

    def _size(self, before: int = 0) -> None:
        """Say how many slots there are and how many are wanted; look for cores if these are more."""
        active, most = self._slots.active, most_slots(self._contents.plan)
        vcores = max((self._contents.needs[slot].vcores for slot in active), default=1)
        self._spreading.size(len(active), min(most, self._platform.wanted(most * vcores) // vcores))
        slots, wanted = len(active), self._spreading.wanted
        kind: SlotKind = "spread" if before else "sized"
        if before:
            text = f"containers are spread over {plural(slots, 'slot')} now ({before} before)"
            text += f"; {wanted} are wanted" if slots < wanted else ", as many as wanted"
        elif slots < wanted:
            text = f"containers live in {plural(slots, 'slot')}, {wanted} are wanted: "
            text += "more are started once Spark has cores"
        else:
            text = f"containers live in {plural(slots, 'slot')}, as many as wanted"
        self._observe(SlotEvent(self._clock.wall(), kind, text, slots=slots, wanted=wanted))

    def _look_at_spread(self, group: SlotGroup, changing: SlotChanging) -> None:
        """Spread the containers over more slots once Spark has the cores, and the slots are ready."""
        following, plan = changing.next, self._contents.plan
        if following is None:
            if self._spreading.due and self._slots.complete:
                begun = changing.spread(plan, self._spreading.wanted, group.reach.hosts)
                self._spreading.looked(begun=begun)
            return
        if not following.spreads or not self._slots.complete or not changing.prepared:
            return
        try:
            following = changing.take(plan)
        except RidgelineError as error:
            changing.abandon()
            self._warn(f"containers cannot be spread over more slots: {error}")
            self._spreading.rest()
            return
        before = len(self._slots.active)
        self._moved(f"containers are spread over {before + len(following.fresh)} slots, {before} before")
        self._host(following, following.preferences)
        self._size(before)

    def _warn(self, text: str) -> None:
        self._observe(StateWarning(self._clock.wall(), -1, text))
