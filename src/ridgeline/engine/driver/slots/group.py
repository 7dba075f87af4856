"""The slots of a run, seen from STRAM: their Spark jobs, their connections, and who is there.

A slot is lost when its connection is. Spark's own retry brings it back; where Spark has given up a new job is
submitted. Once all slots are there each one gets its containers and the addresses of its partners: the slots
that it exchanges blocks with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ridgeline.api.clock import Clock
from ridgeline.api.errors import Failure
from ridgeline.engine.driver.heartbeats import Process
from ridgeline.engine.driver.slots.jobs import JobEnded
from ridgeline.engine.driver.slots.spark_slots import SparkSlots
from ridgeline.engine.exchange.network import (
    BROKEN,
    CLOSED,
    CUT,
    UNREACHABLE,
    Lost,
    Opened,
    Peer,
    Received,
)
from ridgeline.engine.process import log_channel
from ridgeline.engine.slot import task as slot_task
from ridgeline.engine.slot.messages import (
    End,
    Ended,
    Frame,
    FromSlot,
    Joined,
    MalformedError,
    RunAttempt,
    SetLevels,
    ToSlot,
    decode,
    encode,
    encode_for_each,
)
from ridgeline.measure.events import RunEvent
from ridgeline.measure.slot_events import SlotEvent, SlotKind
from ridgeline.stram.slots import (
    AskHosts,
    EmptySlot,
    GiveUpRule,
    GiveUpSlot,
    Member,
    Misplaced,
    MoveSlot,
    RetireSlot,
    SendAssignments,
    SlotInstruction,
    StartSlot,
)

if TYPE_CHECKING:
    from ridgeline.engine.driver.slots.contents import SlotContents

_ATTEMPTS_OF_A_JOB = 100 * slot_task.JOINS
"""The attempts of a job's peers begin here times its number: Spark tries its task less often."""
_ENDING_SECONDS = 10.0
_AT_ONCE_SECONDS = 0.3
_REDIAL_SECONDS = 60.0
"""How much longer than the patience a slot tries to reach STRAM: if it joins, its host is back."""
_JOBS_SECONDS = 8.0
_FORGOTTEN_SECONDS = 120.0
"""How long a host counts as cut off from which nothing comes: Spark itself removes it by then."""
_LOOK_SECONDS = 0.5
_CUT = {CUT, UNREACHABLE}
_ENDS = {CLOSED, BROKEN}
"""How a connection ends whose other end has died."""


@dataclass(frozen=True, slots=True)
class SlotCame:
    """A process has joined as a slot."""

    member: Member


@dataclass(frozen=True, slots=True)
class SlotGone:
    """The process that was a slot is lost. `ended`: its connection ended, so it died; else it was cut off."""

    slot: int
    member: Member
    reason: str
    ended: bool


@dataclass(frozen=True, slots=True)
class SlotMessage:
    """A message of a slot that is there."""

    slot: int
    message: FromSlot


GroupEvent: TypeAlias = SlotCame | SlotGone | SlotMessage | SendAssignments | GiveUpSlot | GiveUpRule
"""What has happened to slots; of STRAM's decisions those that are carried out here or are the end."""


class Reach:
    """Which hosts of slots can be reached.

    `limit_seconds`: after so long a silent host is lost. `observe` gets what is said of them.
    """

    def __init__(self, limit_seconds: float, clock: Clock, observe: Callable[[RunEvent], None]) -> None:
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._observe = observe
        self._silent: dict[int, tuple[Member, float]] = {}
        """The slots whose hosts do not answer, and since when (monotonic)."""
        self._cut: dict[str, float] = {}
        self._look_at = 0.0
        self.processes: Collection[Process] = frozenset()
        """Those on hosts that do not answer: they may do well."""

    @property
    def hosts(self) -> Collection[str]:
        """The hosts that are cut off, by Spark's names."""
        now = self._clock.monotonic()
        self._cut = {node: at for node, at in self._cut.items() if now - at < _FORGOTTEN_SECONDS}
        return set(self._cut)

    def look(self, members: Mapping[int, Member], silent_seconds: Callable[[int], float]) -> None:
        """See which hosts do not answer, and which do again; `silent_seconds`: of a slot."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        for slot, member in members.items():
            seconds, known = silent_seconds(slot), self._silent.get(slot)
            if seconds and known is None:
                self._silent[slot] = member, now - seconds
                self._report(slot, member, seconds)
            elif known is not None and known[0] != member:
                del self._silent[slot]
            elif known is not None and not seconds:
                del self._silent[slot]
                self._report(slot, member, now - known[1], again=True)
        self.processes = frozenset((one.host, one.pid) for one, _ in self._silent.values())

    def lost(self, slot: int, member: Member, *, cut: bool) -> None:
        """A slot is lost; `cut`: since its host does not answer."""
        silent = self._silent.pop(slot, None) is not None
        if (cut or silent) and member.node:
            self._cut[member.node] = self._clock.monotonic()

    def found(self, node: str) -> None:
        """A process of a host has sent something."""
        self._cut.pop(node, None)

    def _report(self, slot: int, member: Member, seconds: float, *, again: bool = False) -> None:
        kind: SlotKind = "answers" if again else "silent"
        text = f"slot {slot} (process {member.pid} on `{member.host}`) "
        if again:
            text += f"answers again after {seconds:.0f} s: nothing is lost, windows go on"
        else:
            text += (
                f"has not answered for {seconds:.0f} s: the network is cut, or the host is gone or stands "
                f"still; windows wait for it, and after {self._limit_seconds:g} s it is lost"
            )
        self._observe(SlotEvent(self._clock.wall(), kind, text, slot, member.host, member.pid))


class SlotGroup:
    """Starts the slots of a run and keeps them. One thread calls all but `wake`.

    `reach`: the hosts that can be reached. `observe` gets who has joined, and who is lost.
    """

    def __init__(
        self,
        platform: SparkSlots,
        contents: SlotContents,
        clock: Clock,
        observe: Callable[[RunEvent], None],
    ) -> None:
        self._platform = platform
        self._slots = contents.slots
        self._contents = contents
        self._clock = clock
        self._observe = observe
        self.reach = Reach(platform.silent_seconds, clock, observe)
        self.began = False
        """Slots have got an attempt."""
        self._levels = log_channel.levels()
        """The levels of loggers that the slots have."""
        self._network = platform.open_network()
        self._peers: dict[int, Peer] = {}
        self._job_numbers: dict[int, int] = {}
        self._cancelled: dict[int, int] = {}
        """The last job of a slot that was cancelled, by slot."""
        self._delayed: dict[int, tuple[float, StartSlot]] = {}
        """Slots that are started later, and when (monotonic)."""
        self._sent_away: set[tuple[int, int]] = set()
        """Tasks that cannot be slots: slot, and the attempts of its peers in thousands."""
        self._leaving: set[Peer] = set()
        """Slots that are ending while the application runs."""
        self._left: list[Failure] = []
        """Failures in their `teardown`."""
        self._jobs = platform.open_jobs(self._task, contents.describe, contents.need, self._network.wake)
        self.follow(self._slots.start())

    @property
    def refused(self) -> Mapping[str, int]:
        """How many connections and messages were refused so far, by reason."""
        return self._network.refused

    def has(self, peer: Peer) -> bool:
        """True if this very process is a slot now."""
        return self._peers.get(peer.slot) == peer

    def way_to(self, slot: int) -> tuple[Peer, str]:
        """Who a slot that is there is now, and where it is reached."""
        return self._peers[slot], str(self._slots.members[slot].address)

    def send(self, slot: int, message: ToSlot) -> None:
        """Send a message to a slot; it is lost if the slot is."""
        if slot in self._peers:
            self.send_frame(slot, encode(message))

    def send_frame(self, slot: int, frame: Frame) -> None:
        """Send a message that is encoded to a slot; it is lost if the slot is."""
        peer = self._peers.get(slot)
        if peer is not None:
            self._network.send(peer, *frame)

    def peer(self, slot: int) -> Peer | None:
        """The process that is a slot now, None if there is none."""
        return self._peers.get(slot)

    def send_all(self, message: ToSlot) -> None:
        """Send one message to all slots but the spare, encoded once."""
        frame = encode(message)
        for slot, peer in self._peers.items():
            if slot != self._slots.spare:
                self._network.send(peer, *frame)

    def send_away(self, slot: int, reason: str) -> Sequence[GroupEvent]:
        """End a process that cannot be a slot; Spark starts another one."""
        peer = self._peers.get(slot)
        if peer is None:
            return ()
        self._network.hang_up(peer)
        self._sent_away.add((slot, peer.attempt // slot_task.JOINS))
        return self._lost(slot, reason, blamed=True)

    def send_attempt(self, run: RunAttempt) -> None:
        """Send an attempt to all slots; each gets the states of its own containers only."""
        self.began = True
        states = run.request.states
        if states is None:
            self.send_all(run)
            return
        encoded = encode_for_each(run)
        for slot in sorted(self._peers):
            if slot != self._slots.spare:
                self.send_frame(slot, encoded(self._contents.states_of(slot, states)))

    def _silent_seconds(self, slot: int) -> float:
        """For how long the host of a slot that is there has acknowledged nothing, see `Network`."""
        peer = self._peers.get(slot)
        return 0.0 if peer is None else self._network.silent_seconds(peer)

    def _send_levels(self) -> None:
        """Send the levels of loggers to all slots, if they have changed."""
        levels = log_channel.levels()
        if levels is not self._levels:
            self._levels = levels
            for slot in self._peers:
                self.send(slot, SetLevels(dict(levels)))

    def wake(self) -> None:
        """Let `poll` return. From any thread."""
        self._network.wake()

    def end_process(self, host: str, pid: int) -> None:
        """Have Spark end the task of a slot, by its process. From any thread."""
        for slot, member in list(self._slots.members.items()):
            if (member.host, member.pid) == (host, pid):
                self._cancelled[slot] = self._job_numbers[slot]
                self._jobs.cancel(slot)

    def poll(self, seconds: float) -> list[GroupEvent]:
        """The events; waits at most `seconds` for one, and returns early if woken.

        Raises SparkGoneError if Spark has ended, WorkerError if it can start no Python worker.
        """
        events: list[GroupEvent] = []
        self._send_levels()
        if self._delayed:
            now = self._clock.monotonic()
            for slot, (due, instruction) in list(self._delayed.items()):
                if now >= due:
                    del self._delayed[slot]
                    self._start(instruction)
                else:
                    seconds = min(seconds, due - now)
        for event in self._network.poll(seconds):
            match event:
                case Received():
                    events += self._received(event)
                case Lost(peer, reason, detail):
                    if self.has(peer):
                        what = detail or f"the connection to it is {reason}"
                        events += self._lost(peer.slot, what, ended=reason in _ENDS, cut=reason in _CUT)
                case Opened():
                    pass  # its first message is `Joined`
        for ended in self._jobs.take_ended():
            events += self._job_ended(ended)
        self.reach.look(self._slots.members, self._silent_seconds)
        return events

    def close(self, *, at_once: bool = False) -> list[Failure]:
        """End all slots in order, within 20 s; returns what failed in it.

        A slot that does not answer in time is ended by Spark, which gives its containers 5 s. `at_once`: one
        that is at work gets no time.
        """
        failures = self._left
        waiting = set(self._peers)
        for slot in waiting:
            self.send(slot, End())
        deadline = self._clock.monotonic() + (_AT_ONCE_SECONDS if at_once else _ENDING_SECONDS)
        while waiting and (left := deadline - self._clock.monotonic()) > 0:
            for event in self._network.poll(left):
                if isinstance(event, Lost) and self.has(event.peer):
                    waiting.discard(event.peer.slot)
                elif isinstance(event, Received) and self.has(event.peer):
                    for one in self._received(event):
                        if isinstance(one, SlotMessage) and isinstance(one.message, Ended):
                            failures += one.message.failures
                            waiting.discard(one.slot)
        for slot in waiting:
            self._network.hang_up(self._peers[slot])
        self._network.close()
        for slot in range(len(self._slots.placement)):
            if slot in waiting or slot not in self._peers:
                self._jobs.cancel(slot)
        self._jobs.close(_JOBS_SECONDS)
        return failures

    # Who comes and goes -------------------------------------------------------------------------------------

    def _task(self, slot: int) -> str:
        """The parameters of a slot's task. Called by the thread of the jobs."""
        first = self._job_numbers[slot] * _ATTEMPTS_OF_A_JOB
        epoch = self._network.me.attempt
        address = self._network.address
        platform = self._platform
        return slot_task.SlotTask(
            slot,
            first,
            epoch,
            address,
            platform.listen,
            silent_seconds=platform.silent_seconds,
            redial_seconds=platform.patience_seconds + _REDIAL_SECONDS,
        ).encode()

    def follow(  # noqa: C901, PLR0912  a case each
        self, instructions: Iterable[SlotInstruction]
    ) -> list[GroupEvent]:
        """Carry out what STRAM has decided."""
        events: list[GroupEvent] = []
        for instruction in instructions:
            match instruction:
                case StartSlot(slot, _, _, wait_seconds) if wait_seconds:
                    self._delayed[slot] = self._clock.monotonic() + wait_seconds, instruction
                case StartSlot():
                    self._start(instruction)
                case AskHosts():
                    events += self.follow(self._slots.hosts_changed(self._platform.capacities()))
                case MoveSlot(slot, hosts):
                    if hosts or slot not in self._delayed:  # else it is about to be started anyway
                        self._end_job(slot)
                    if hosts:
                        text = f"slot {slot} is asked for again: a locality or a rule needs it on "
                        self._observe(SlotEvent(self._clock.wall(), "moved", text + _one_of(hosts), slot))
                case Misplaced(slot, host, hosts):
                    text = (
                        f"slot {slot} stays on `{host}`: Spark did not start it on {_one_of(hosts)}, "
                        "where a locality or a rule needs it; has that host a free core?"
                    )
                    self._observe(SlotEvent(self._clock.wall(), "misplaced", text, slot, host))
                case GiveUpRule() | GiveUpSlot():
                    events.append(instruction)
                case SendAssignments():
                    self._send_assignments()
                    events.append(instruction)
                case EmptySlot(slot):
                    self.send(slot, self._contents.emptied(slot))
                case RetireSlot(slot) if slot in self._delayed:
                    del self._delayed[slot]  # it has no job that could end
                    events += self.follow(self._slots.job_ended(slot, ""))
                case RetireSlot(slot, orderly) if orderly and slot in self._peers:
                    self._retire(slot)
                case RetireSlot(slot):
                    self._end_job(slot)
        return events

    def _start(self, instruction: StartSlot) -> None:
        self._job_numbers[instruction.slot] = instruction.job
        self._jobs.start(instruction.slot, instruction.hosts)

    def _received(self, frame: Received) -> Sequence[GroupEvent]:
        """Take a message in. A slot that sends what is no message for STRAM is cut off, and so lost."""
        peer = frame.peer
        try:
            message = decode(frame)
            if not isinstance(message, FromSlot):
                raise MalformedError(f"{peer} sent `{type(message).__name__}`, which is not for STRAM")  # noqa: TRY301  as what `decode` refuses
        except MalformedError as error:
            self._network.hang_up(peer)
            return self._lost(peer.slot, str(error)) if self.has(peer) else ()
        if isinstance(message, Joined):
            return self._joined(peer, message)
        if isinstance(message, Ended) and peer in self._leaving:
            self._leaving.discard(peer)
            self._left += message.failures
        return (SlotMessage(peer.slot, message),) if self.has(peer) else ()

    def _joined(self, peer: Peer, joined: Joined) -> list[GroupEvent]:
        """A process is a slot from now on; an older one that is still connected is sent away.

        So is one that Spark begins again before it learns that the job is cancelled.
        """
        slot = peer.slot
        older = self._peers.get(slot)
        known = slot in self._job_numbers
        cancelled = peer.attempt // _ATTEMPTS_OF_A_JOB <= self._cancelled.get(slot, -1)
        unable = (slot, peer.attempt // slot_task.JOINS) in self._sent_away
        if not known or cancelled or unable or (older is not None and older.attempt > peer.attempt):
            self._network.hang_up(peer)
            if cancelled:
                self.reach.found(self._jobs.node(slot, joined.host))
            return []
        events: list[GroupEvent] = []
        if older is not None:
            self._network.hang_up(older)
            same = older.attempt // slot_task.JOINS == peer.attempt // slot_task.JOINS
            why = (
                "it could not reach STRAM, and has joined anew" if same else "another process took its place"
            )
            events += self._lost(slot, why, cut=same)
        self._peers[slot] = peer
        self._jobs.connected(slot)
        node = self._jobs.node(slot, joined.host)
        self.reach.found(node)
        if self._levels:
            self.send(slot, SetLevels(dict(self._levels)))
        member = Member(joined.host, joined.pid, joined.address, node)
        again, hosted = self._slots.has_joined_before(slot), len(self._slots.placement[slot])
        kind: SlotKind = "restarted" if again else "joined"
        text = f"slot {slot} is there{' again' if again else ''}: process {member.pid} on `{member.host}`"
        text += f" hosts {hosted} containers"
        self._observe(SlotEvent(self._clock.wall(), kind, text, slot, member.host, member.pid, hosted))
        return [*events, SlotCame(member), *self.follow(self._slots.joined(slot, member))]

    def _end_job(self, slot: int) -> None:
        """Have Spark end a slot, which tears its containers down; no later process of the job is one."""
        self._cancelled[slot] = self._job_numbers[slot]
        self._jobs.cancel(slot)
        peer = self._peers.pop(slot, None)
        if peer is not None:
            self._jobs.disconnected(slot)
            self._network.hang_up(peer)

    def _retire(self, slot: int) -> None:
        """Have a slot tear its containers down and end; no later process of the job is one."""
        self.send(slot, End())
        self._cancelled[slot] = self._job_numbers[slot]
        self._leaving.add(self._peers.pop(slot))
        self._jobs.disconnected(slot)

    def _send_assignments(self) -> None:
        """Send `Host` to the slots that need it; those without containers wait for theirs."""
        members = self._slots.members
        ways = {slot: (self._peers[slot], str(members[slot].address)) for slot in self._slots.active}
        for slot, host in self._contents.assignments(ways):
            self.send(slot, host)

    def _lost(
        self, slot: int, reason: str, *, ended: bool = False, cut: bool = False, blamed: bool = False
    ) -> list[GroupEvent]:
        """The process that is a slot is one no more; its job is watched. `ended`, `cut`: as it has shown.

        `blamed`: an operator's code is the reason.
        """
        del self._peers[slot]
        member = self._slots.lost(slot, reason, blamed=blamed)
        self._jobs.disconnected(slot)
        if member is None:
            return []
        self.reach.lost(slot, member, cut=cut)
        # Here, as who joins is: of a process that takes another's place the loss comes first.
        text = f"slot {slot} is lost: process {member.pid} on `{member.host}`: {reason}"
        self._observe(SlotEvent(self._clock.wall(), "lost", text, slot, member.host, member.pid))
        return [SlotGone(slot, member, reason, ended)]

    def _job_ended(self, ended: JobEnded) -> list[GroupEvent]:
        """A slot needs another job, unless Spark could run that no better."""
        reason = "" if ended.error is None else self._platform.reason(ended.error)
        events: list[GroupEvent] = []
        peer = self._peers.get(ended.slot)
        if peer is not None:
            self._network.hang_up(peer)
            events += self._lost(ended.slot, reason or "Spark has ended its task", ended=True)
        now = self._clock.monotonic()
        return events + self.follow(self._slots.job_ended(ended.slot, reason, now))


def _one_of(hosts: Iterable[str]) -> str:
    return " or ".join(f"`{host}`" for host in hosts)
