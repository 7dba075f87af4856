"""Windows in slots: containers that live in long Spark tasks, with several windows in flight."""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure, OperatorError, RidgelineError
from ridgeline.engine.driver.heartbeats import Heartbeats, heartbeat_seconds
from ridgeline.engine.driver.slots.changing import SlotChanging
from ridgeline.engine.driver.slots.deaths import Deaths
from ridgeline.engine.driver.slots.feed import FeedError, Feeds
from ridgeline.engine.driver.slots.group import (
    AllThere,
    GroupEvent,
    HostAnswers,
    RuleGivenUp,
    Said,
    SlotCame,
    SlotElsewhere,
    SlotGivenUp,
    SlotGone,
    SlotGroup,
    SlotMoved,
)
from ridgeline.engine.driver.slots.hedging import Hedging, is_of_windows
from ridgeline.engine.driver.slots.reach import Reach
from ridgeline.engine.driver.slots.spark_slots import SlotPlatform
from ridgeline.engine.driver.slots.start import (
    attempts_of,
    choose_slots,
    describe_missing,
    distribute_plan,
    homes_of,
    named_all,
)
from ridgeline.engine.driver.watchdog import Hangs, Process, Stuck, Watchdog, Worker
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.exchange.shared_blocks import SMALLEST_BYTES
from ridgeline.engine.files.storage import DriverStorage
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.slot.messages import (
    Awake,
    Committed,
    Failed,
    FromSlot,
    Heartbeat,
    Host,
    Prepare,
    Prepared,
    Reported,
    RunAttempt,
    Unreachable,
)
from ridgeline.measure.events import RunEvent, StateWarning
from ridgeline.measure.slot_events import (
    SlotJoined,
    SlotLost,
    SlotMisplaced,
    SlotSpeculated,
    SlotsReduced,
    SlotsSized,
)
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from ridgeline.stram.control import (
    AttemptFailed,
    ContainerReported,
    ContainersMoved,
    ExecutorEvent,
    InputAwake,
)
from ridgeline.stram.patience import Patience, back_off
from ridgeline.stram.placement import Placement, most_slots
from ridgeline.stram.rules import PlanRules, describe_given_up
from ridgeline.stram.slot_attempts import SlotAttempts
from ridgeline.stram.slot_resources import Need, greatest_of, needs_of
from ridgeline.stram.slots import Member, RetireSlot, SlotInstruction, Slots

_LOOKS_AT_THE_START = 3
"""So many times its patience the run waits for slots that have never been there."""
_CHECK_SECONDS = 1.0
_SPREAD_SECONDS = 2.0
_SPREAD_REST_SECONDS = 60.0
_SUSPICION_SECONDS = 1.0
"""So long it may take until STRAM, too, finds a slot lost that another one could not reach."""
_SHARED_BYTES = SMALLEST_BYTES // 2
"""A container that sends less has no block by reference."""


class SlotExecutor:
    """Runs the containers of a plan in slots; a `WindowExecutor`. The slots are started by the first window.

    A slot that is lost takes all windows in flight with it: one event says so. The containers' states are
    void then. Requests with states, and those after them, wait until all slots are there again.
    """

    waits = True

    def __init__(
        self,
        platform: SlotPlatform,
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
        self._plan = plan
        self._storage = storage
        self._run_id = run_id
        self._epoch = epoch
        self._clock = clock
        self._observe = observe
        self._heartbeats = heartbeats or Heartbeats(observe, clock)
        self._heartbeat_seconds = None if heartbeats is None else heartbeat_seconds(plan)
        self._application = plan.logical.application
        self._operators = {operator.id: operator for operator in plan.physical.operators}
        self._containers = {container.id: container.operators for container in plan.execution.containers}
        self._sharing = platform.open_sharing()
        self._cleaner = ThreadPoolExecutor(1, "ridgeline-cleaner")
        self._told = self._shared = -1
        """The last window that slots were told of, and the last with blocks by reference to be removed."""
        self._unsaid: int | None = None
        """The last window that was committed, if slots are not told yet: the next `RunAttempt` does."""
        if self._heartbeat_seconds is not None:
            self._heartbeats.expect(self._heartbeat_seconds)
        hangs = Hangs(plan, run_id, self._process_of)
        self._watchdog = Watchdog(hangs, self._workers, self._end_stuck, clock)
        self._group: SlotGroup | None = None
        self._slots: Slots
        self._needs: dict[int, Need]
        self._plan_files: list[plan_distribution.PlanFile]
        self._home: dict[int, int] = {}
        self._events: deque[ExecutorEvent] = deque()
        self._attempts = SlotAttempts(self._containers)
        self._deaths = Deaths(self._application, run_id)
        self._suspects: dict[Peer, tuple[float, Failure]] = {}
        """The slots that another one could not reach, and what it means if they are not lost in time."""
        self._feeds = Feeds(plan, platform.open_feed, platform.reason, clock)
        self._given_up: Failure | None = None
        """Why no slot can take a place: the end, once what else has failed is known."""
        self._woken = False
        self._look_again_at = math.inf
        """When to see whether there are places for all slots."""
        self._looks_left = _LOOKS_AT_THE_START
        self._warned = self._short = False
        """`_short`: Spark had too few places the last time, whether or not all slots were there."""
        self._patience = Patience(platform.patience_seconds)
        self._reach = Reach(platform.silent_seconds, clock, observe)
        self._spread_at = math.inf
        """When to look for cores for the slots that are wanted and are not there."""
        self._spread_failures = self._wanted = 0
        self._check_at = 0.0
        self._hedging = Hedging(plan, clock, self._warn)
        self._changing: SlotChanging | None = None

    # Windows ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Ask Spark for the slots. Raises RidgelineError if it has too few cores."""
        self._group = self._group or self._start()

    def begin(self, request: WindowRequest, source: object) -> float:
        """Tell all slots of an attempt, now or once all are there; returns when (wall clock).

        Raises as `open`.
        """
        self.open()
        group = self._group
        assert group is not None  # noqa: S101  it is open
        self._feeds.take(request.window_id, source)
        complete = group.complete and self._clock.monotonic() >= self._patience.wait_until
        self._carry_out(group, self._attempts.begin(request, complete=complete))
        return self._clock.wall()

    def poll(self, seconds: float) -> Sequence[ExecutorEvent]:
        """What has come of the windows; waits at most so long for the first event.

        Raises SparkGoneError, WorkerError, and OperatorError if a slot was lost too often or a `committed`
        failed.
        """
        deadline = self._clock.monotonic() + seconds
        self._say_committed()
        while not self._events and not self._woken and self._group is not None and self._given_up is None:
            left = deadline - self._clock.monotonic()
            soon = min(left, _SUSPICION_SECONDS, self._feeds.seconds, self._hedging.seconds)
            for event in (found := self._group.poll(soon)):
                self._take(self._group, event)
            self._heartbeats.all_read(self._group.refused)
            self._look(self._group)
            if not found:  # all that slots have said is read
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
        """Tell the slots with the next window, or in the next `poll`; remove the blocks of the window.

        What `committed` of an operator raises is raised by a later `poll`.
        """
        self._unsaid = window_id
        if self._shared >= 0 and self._sharing.in_use:
            self._cleaner.submit(self._sharing.clean, window_id)
            if window_id >= self._shared:
                self._shared = -1

    def close(self) -> Sequence[Failure]:
        """End all slots in order, within 20 s. Returns what failed in `deactivate` and `teardown`."""
        self._watchdog.close()
        failures: list[Failure] = []
        self._feeds.stop()
        self._say_committed()
        try:
            if self._group is not None:
                failures = self._group.close()
                self._heartbeats.all_read(self._group.refused)
        finally:
            self._platform.release()  # also what was claimed for slots that could not be started
        self._heartbeats.close()
        if self._changing is not None:
            self._changing.close()
        self._cleaner.shutdown(wait=True)
        self._sharing.close()
        return failures

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
        """Tell the slots what lives in them from now on. Raises RidgelineError if that cannot be."""
        if self._group is None or self._changing is None:
            self._take_plan(plan)
            return
        if plan is self._plan:
            self._changing.abandon()
            return
        following = self._changing.take(plan)
        self._say_committed()
        given_back = [slot for slot in self._slots.active if not following.placement[slot]]
        self._platform.release(sum(self._needs[slot].vcores for slot in given_back))
        self._take_plan(plan)
        assert following.files is not None  # noqa: S101  it was taken
        self._plan_files = [*following.files.result()]
        self._home = homes_of(following.placement)
        self._needs.update(enumerate(following.needs))
        if self._slots.spare is not None:
            self._needs[self._slots.spare] = greatest_of(following.needs)
        self._follow(self._slots.change(following.placement, PlanRules(plan), attempts_of(plan)))
        self._size()
        if not self._group.complete:
            self._look_again_at = self._clock.monotonic() + self._platform.patience_seconds

    def _follow(self, instructions: Iterable[SlotInstruction]) -> None:
        """Carry out what follows for slots."""
        if self._group is not None:
            for event in self._group.follow(instructions):
                self._take(self._group, event)

    def _take_plan(self, plan: Plan) -> None:
        self._plan = plan
        self._operators = {operator.id: operator for operator in plan.physical.operators}
        self._containers = {container.id: container.operators for container in plan.execution.containers}
        self._attempts = SlotAttempts(self._containers)
        self._watchdog.follow(plan)
        self._hedging.follow(plan)
        self.capacity = max(2, int(plan.logical.attributes["windows_in_flight"]))

    # The start ----------------------------------------------------------------------------------------------

    def _start(self) -> SlotGroup:
        """Choose how many slots there are and what lives in them, and ask Spark for them."""
        placement, needs, spare = choose_slots(self._platform, self._plan, self._warn)
        self._needs = dict(enumerate(needs))
        self._home = homes_of(placement)
        rules, offers = PlanRules(self._plan), self._platform.offers()
        patience = self._platform.patience_seconds
        self._slots = Slots(
            placement, attempts_of(self._plan), rules, offers, spare=spare, patience_seconds=patience
        )
        self._plan_files = [*self._distribute(self._plan, placement)]
        self._look_again_at = self._clock.monotonic() + self._platform.patience_seconds
        self._group = SlotGroup(
            self._platform,
            self._slots,
            self._host,
            self._describe,
            lambda slot: self._needs[slot],
            self._clock,
        )
        self._changing = SlotChanging(
            self._platform,
            self._slots,
            self._group,
            self._storage.uri,
            self._clock,
            self._distribute,
            self._follow,
            lambda: self._needs,
        )
        self._size()
        return self._group

    def _distribute(self, plan: Plan, placement: Placement) -> Sequence[plan_distribution.PlanFile]:
        """A plan file for each slot."""
        return distribute_plan(self._storage, plan, placement, self._slots.spare, self._epoch)

    def _host(self, slot: int, peers: Mapping[Peer, str]) -> Host:
        """What a slot hosts from now on; `peers` are of no interest to one that hosts nothing."""
        hosted = self._slots.placement[slot]
        return Host(
            self._storage.uri,
            self._plan_files[slot],
            self._run_id,
            self._epoch,
            hosted,
            self._home if hosted else {},
            peers if hosted else {},
            self._heartbeat_seconds,
        )

    def _describe(self, slot: int) -> str:
        """What Spark's UI shows of a slot's job. Called by the thread of the jobs."""
        empty = "spare" if slot == self._slots.spare else "for a plan that follows"
        hosted = self._names(slot) or empty
        return f"{self._application}: slot {slot + 1} of {len(self._slots.placement)} ({hosted})"

    def _names(self, slot: int) -> str:
        """The operators in a slot, for people."""
        hosted = self._slots.placement[slot]
        ids = [one for container in hosted for one in self._containers.get(container, ())]
        return named_all([self._operators[one].title for one in ids if one in self._operators])

    # What is sent, what comes -------------------------------------------------------------------------------

    def _carry_out(self, group: SlotGroup, found: Iterable[WindowRequest | AttemptFailed]) -> None:
        for one in found:
            if isinstance(one, AttemptFailed):
                self._events.append(one)
            else:
                self._tell(group, one)

    def _tell(self, group: SlotGroup, request: WindowRequest) -> None:
        """Send an attempt to all slots; each gets the states of its own containers only."""
        if request.states is not None:
            self._watchdog.end()  # all attempts begun before are void
        self._watchdog.begin(request)
        self._hedging.begin(request)
        self._told = max(self._told, request.window_id)
        hosts = {member.host for member in self._slots.members.values()}
        shared = self._sharing.place(request.attempt, hosts)
        try:
            fed = self._feeds.prepare(request)
            committed, self._unsaid = self._unsaid, None
            self._send(group, RunAttempt(request, shared, fed, -1 if committed is None else committed))
            if fed:
                slots = {container: group.way_to(self._home[container]) for container in fed}
                self._feeds.start(slots, group.secret)
        except FeedError as error:
            self._fail(error.failure)

    def _send(self, group: SlotGroup, run: RunAttempt) -> None:
        """Send an attempt to all slots."""
        request = run.request
        if request.states is None:
            group.send_all(run)
            return
        for slot, hosted in enumerate(self._slots.placement):
            if slot == self._slots.spare:
                continue
            own = (operator for container in hosted for operator in self._containers[container])
            states = {operator: request.states[operator] for operator in own if operator in request.states}
            group.send(slot, replace(run, request=replace(request, states=states)))

    def _say_committed(self) -> None:
        """Tell the slots of the last commit, if no `RunAttempt` did and they have states to go on with."""
        if self._unsaid is not None and self._group is not None and self._told >= 0:
            self._group.send_all(Committed(self._unsaid))
            self._unsaid = None

    def _take(  # noqa: C901, PLR0912  a case each
        self, group: SlotGroup, event: GroupEvent, failure: Failure | None = None
    ) -> None:
        """Take one event of the slots in. `failure`: why a slot is gone, if that is known."""
        match event:
            case Said(slot, message):
                self._hear(group, slot, message)
            case AllThere():
                self._looks_left = 1
                self._warned = False
                if self._clock.monotonic() >= self._patience.wait_until:
                    self._carry_out(group, self._attempts.all_there())
            case HostAnswers(node):
                self._reach.found(node)
            case SlotCame(slot, member, again):
                self._reach.found(member.node)
                self._deaths.came(member)
                at, hosted = self._clock.wall(), len(self._slots.placement[slot])
                self._observe(SlotJoined(at, slot, member.host, member.pid, hosted, again=again))
            case SlotGone(slot, member, reason, ended, cut):
                self._heartbeats.lost(slot)
                self._reach.lost(slot, member, cut=cut)
                self._observe(SlotLost(self._clock.wall(), slot, member.host, member.pid, reason))
                if not self._slots.placement[slot]:
                    self._watchdog.take(member.host, member.pid)
                    self._deaths.left(member)
                    return
                self._look_again_at = self._clock.monotonic() + self._platform.patience_seconds
                self._fail(failure or self._failure(slot, member, reason, ended=ended))
                if slot in self._slots.missing:
                    self._stand_in(group, slot)
            case SlotMoved(slot, hosts) | SlotElsewhere(slot, _, hosts):
                host = event.host if isinstance(event, SlotElsewhere) else ""
                self._observe(SlotMisplaced(self._clock.wall(), slot, tuple(hosts), host))
            case SlotGivenUp(slot, reason, jobs):
                what = f"slot {slot} was lost {jobs} times in a row, the last time so: {reason}"
                where = f"slot {slot} ({self._names(slot)})"
                self._given_up = Failure(self._application, "", 0, self._attempts.oldest, where, what)
            case RuleGivenUp(rule, hosts, slots):
                text = describe_given_up(rule, hosts, slots)
                if rule.relax:
                    self._warn(text)
                else:
                    self._given_up = Failure(
                        self._application, "", 0, self._attempts.oldest, "the slots", text
                    )

    def _hear(self, group: SlotGroup, slot: int, message: FromSlot) -> None:
        """Take a message of a slot in. Raises OperatorError if a `committed` failed.

        What the spare says of windows is void: it was late with them, and others run them.
        """
        if slot == self._slots.spare and is_of_windows(message):
            return
        match message:
            case Reported(reports):
                for report in pickle.loads(reports):
                    self._reported(report)
            case Heartbeat(data):
                self._heartbeats.take(slot, data)
            case Awake():
                self._events.append(InputAwake())
            case Prepared() if self._changing is not None:
                self._changing.heard(slot, message)
                self._hedging.heard(self._slots, group, slot, message, self._plan_files)
            case Failed(_, window_id, attempt, failure) if attempt >= 0:
                self._events.append(AttemptFailed(window_id, attempt, failure))
            case Failed(_, window_id, _, failure) if window_id >= 0:
                raise OperatorError(failure)
            case Failed(_, _, _, failure):  # it could not make its containers: another process may
                for event in group.send_away(slot, failure.error):
                    self._take(group, event, replace(failure, application=self._application))
            case Unreachable(peer, detail):
                what = f"slot {slot} cannot reach slot {peer.slot}: {detail}"
                where = "the exchange between slots"
                failure = Failure(self._application, "", 0, -1, where, what, cluster=True)
                self._suspects[peer] = self._clock.monotonic() + _SUSPICION_SECONDS, failure
            case _:
                pass

    def _reported(self, report: WindowReport) -> None:
        """Pass a report on to STRAM, and note whether its attempt is over."""
        window = report.window
        window.received = self._clock.wall()
        self._events.append(ContainerReported(report))
        if window.bytes_out >= _SHARED_BYTES:
            self._shared = max(self._shared, window.window_id)
        if self._attempts.runs(window.window_id, window.attempt):
            self._watchdog.ended(window.window_id, window.container)
            self._hedging.ended(window.window_id, window.container)
        if self._attempts.reported(window.window_id, window.attempt, window.container):
            self._slots.window_ran()
            self._patience.went_on()
            self._feeds.over(window.window_id)
            self._watchdog.end(window.window_id)

    # What is lost -------------------------------------------------------------------------------------------

    def _void(self) -> None:
        """No attempt that was begun counts any more."""
        self._feeds.stop()
        self._shared = self._told
        self._watchdog.end()
        self._hedging.void()

    def _hedge(self, group: SlotGroup) -> None:
        """Have the spare slot run what a late one is late with, if there is one."""
        prepare = partial(Prepare, self._storage.uri)
        late = self._hedging.late(self._home, lambda slot: group.send(slot, prepare(self._plan_files[slot])))
        if late is None:
            return
        spare, member = self._slots.spare, self._slots.members.get(late.slot)
        if spare is None or member is None or not group.complete or not self._stand_in(group, late.slot):
            return
        self._hedging.hedged(late)
        where = late.slot, spare, member.host, member.pid
        self._observe(SlotSpeculated(self._clock.wall(), *where, *late[2:]))

    def _stand_in(self, group: SlotGroup, slot: int) -> bool:
        """Let the spare host what a slot does, if it can: all that is under way begins again."""
        spare = self._slots.spare
        if spare is None or not self._hedging.ready(self._slots, group):
            return False
        instructions = self._slots.stand_in(slot)
        if not instructions:
            return False
        reason = f"slot {spare} has what slot {slot} was late with, or has lost"
        self._void()
        if slot in self._slots.members:  # else it has failed, as is known
            self._attempts.moved()
            self._events.append(ContainersMoved(reason))
        self._home = homes_of(self._slots.placement)
        self._plan_files[slot] = self._plan_files[spare]
        self._needs[slot] = self._needs[spare]
        self._hedging.changed()
        for event in group.follow(instructions):
            self._take(group, event)
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
        self._patience.went_on()
        if not self._attempts.waits:
            self._attempts.moved()
            self._events.append(ContainersMoved(reason))

    def _failure(self, slot: int, member: Member, reason: str, *, ended: bool) -> Failure:
        """Why a slot is lost: what the watchdog found, whose turn it was, or what is known of the process.

        `ended`: its process died.
        """
        stuck = self._watchdog.take(member.host, member.pid)
        where = f"slot {slot} ({self._names(slot)})"
        return stuck or self._deaths.why(
            member, reason, where, self._operators, self._attempts.runs, ended=ended
        )

    def _end_stuck(self, stuck: Stuck) -> None:
        """Have Spark end a process that hangs. Called by the watchdog's thread."""
        if self._group is not None:
            self._group.end_process(stuck.host, stuck.pid)

    def _workers(self) -> Sequence[Worker]:
        """The workers that the watchdog looks at, by its thread: not those whose hosts do not answer."""
        silent = self._reach.processes
        workers = self._heartbeats.workers()
        return [one for one in workers if (one.beat.host, one.beat.pid) not in silent]

    def _process_of(self, container: int) -> Process | None:
        """Host and process of a container's slot. Called by the watchdog's thread."""
        home = self._home.get(container, -1)
        member = self._slots.members.get(home) if self._group is not None else None
        return None if member is None else (member.host, member.pid)

    def _look(self, group: SlotGroup) -> None:
        """What time has brought: slots that others cannot reach, slots that are awaited for long."""
        now = self._clock.monotonic()
        if now >= self._check_at:
            self._check_at = now + _CHECK_SECONDS
            self._platform.check_alive()
        self._watchdog.all_read(rows_come=self._feeds.reading)
        try:
            self._feeds.look()
        except FeedError as error:
            self._fail(error.failure)
        for peer, (due, failure) in list(self._suspects.items()):
            if not group.has(peer) or peer.slot == self._slots.spare:
                del self._suspects[peer]  # it is lost, as everybody knows by now
            elif now >= due:
                del self._suspects[peer]
                self._fail(failure)
        if self._changing is not None:
            self._changing.look()
            self._look_at_spread(group, self._changing, now)
        self._reach.look(self._slots.members, group.silent_seconds)
        if group.complete and self._attempts.waits and now >= self._patience.wait_until:
            self._carry_out(group, self._attempts.all_there())
        self._hedging.look(self._slots, group, self._storage.uri, self._plan_files)
        self._look_for_hosts(group, now)
        if now >= self._look_again_at:
            self._looks_left -= 1
            self._look_at_places(group)
            self._look_again_at = now + self._platform.patience_seconds

    def _look_for_hosts(self, group: SlotGroup, now: float) -> None:
        """While slots are awaited and Spark has a core for none of them, say so; at last give up."""
        if group.complete:
            self._patience.absence.over()
        elif self._patience.absence.due(now):
            vcores = max(self._needs[slot].vcores for slot in self._slots.active)
            if self._platform.present(self._reach.hosts) >= vcores:
                self._patience.absence.has_cores()
                return
            text, ends = self._patience.absence.lasts(now)
            if ends:
                self._given_up = Failure(self._application, "", 0, self._attempts.oldest, "the slots", text)
            else:
                self._warn(text)

    def _look_at_places(self, group: SlotGroup) -> None:
        """Go on with fewer slots if Spark has had too few places for long; else say once what is awaited."""
        cut = self._reach.hosts
        cores, active = self._platform.present(cut), list(self._slots.active)
        taken, before = {slot: self._needs[slot].vcores for slot in active}, len(active)
        places = before if cores >= sum(taken.values()) else cores // max(taken.values())
        instructions: Sequence[SlotInstruction] = ()
        was_short, self._short = self._short, places < before
        if self._looks_left <= 0 and places and (was_short or not group.complete):
            offers = {host: one for host, one in self._platform.offers().items() if host not in cut}
            if cut:
                self._slots.without(offers)
            instructions = self._slots.make_do(places)
            if not instructions and cut and not group.complete:
                missing = ", ".join(map(str, self._slots.missing))
                what = f"{', '.join(f'`{host}`' for host in sorted(cut))} does not answer"
                self._warn(f"Spark is asked for slots elsewhere (missing: {missing}): {what}")
                instructions = self._slots.elsewhere(offers)
        if any(isinstance(one, RetireSlot) for one in instructions):
            self._platform.release(sum(taken[slot] for slot in taken.keys() - set(self._slots.active)))
            needs = needs_of(self._plan, self._slots.placement, self._platform.given)
            self._needs.update(enumerate(needs))
            self._home = homes_of(self._slots.placement)
            self._plan_files = [*self._distribute(self._plan, self._slots.placement)]
            self._hedging.changed()
            self._observe(SlotsReduced(self._clock.wall(), places, before))
            self._size()
            self._moved(f"containers live in {places} of {before} slots now, since Spark has no more cores")
        if instructions:
            for event in group.follow(instructions):
                self._take(group, event)
        elif not group.complete and not self._warned:
            self._warned = True
            self._warn(describe_missing(self._slots.missing))

    # As many slots as are wanted ----------------------------------------------------------------------------

    def _size(self, before: int = 0) -> None:
        """Say how many slots there are and how many are wanted; look for cores if these are more."""
        active = self._slots.active
        most = most_slots(self._plan)
        vcores = max((self._needs[slot].vcores for slot in active), default=1)
        self._wanted = max(len(active), min(most, self._platform.wanted(most * vcores) // vcores))
        self._observe(SlotsSized(self._clock.wall(), len(active), self._wanted, before))
        self._spread_failures = 0
        self._spread_at = math.inf
        if len(active) < self._wanted:
            self._spread_at = self._clock.monotonic() + _SPREAD_SECONDS

    def _look_at_spread(self, group: SlotGroup, changing: SlotChanging, now: float) -> None:
        """Spread the containers over more slots once Spark has the cores, and the slots are ready."""
        following = changing.next
        if following is None:
            if now >= self._spread_at and group.complete:
                begun = changing.spread(self._plan, self._wanted, self._reach.hosts)
                self._spread_failures += begun  # until it has come to something
                self._spread_at = now + max(_SPREAD_SECONDS, back_off(self._spread_failures))
            return
        if not following.spreads or not group.complete or not changing.prepared:
            return
        try:
            following = changing.take(self._plan)
        except RidgelineError as error:
            changing.abandon()
            self._warn(f"containers cannot be spread over more slots: {error}")
            self._spread_at = now + _SPREAD_REST_SECONDS
            return
        before = len(self._slots.active)
        self._say_committed()
        assert following.files is not None  # noqa: S101  it was taken
        self._plan_files = [*following.files.result()]
        self._home = homes_of(following.placement)
        self._needs.update(enumerate(following.needs))
        if self._slots.spare is not None:
            self._needs[self._slots.spare] = greatest_of(following.needs)
        self._hedging.changed()
        self._moved(f"containers are spread over {before + len(following.fresh)} slots, {before} before")
        rules = PlanRules(self._plan)
        self._follow(self._slots.change(following.placement, rules, wishes=following.wished))
        self._size(before)

    def _warn(self, text: str) -> None:
        self._observe(StateWarning(self._clock.wall(), -1, text))
