"""The long task: what Spark runs in a Python worker to have a slot there."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import files
from ridgeline.engine.container.feed import Fed, kept
from ridgeline.engine.exchange.address import TlsWay, UnixWay, own_address, ways_of
from ridgeline.engine.exchange.limits import Limits
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import (
    BROKEN,
    CUT,
    FEEDER,
    LATE,
    MALFORMED,
    STRAM,
    UNREACHABLE,
    Event,
    Lost,
    Network,
    Opened,
    Peer,
    Received,
)
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.exchange.streams import SILENT_SECONDS
from ridgeline.engine.process import log_channel, stacks
from ridgeline.engine.process.garbage import short_pauses
from ridgeline.engine.process.said_lines import ProcessLines
from ridgeline.engine.slot.hosting import CLOCK, Containers, end_orderly
from ridgeline.engine.slot.messages import (
    Address,
    Between,
    Blocks,
    Finished,
    FromSlot,
    Heartbeat,
    Host,
    Joined,
    MalformedError,
    RunAttempt,
    SetLevels,
    Taken,
    TaskParameters,
    ToSlot,
    Unreachable,
    decode,
    encode,
)
from ridgeline.engine.slot.slot import Slot
from ridgeline.measure.events import ContainerHeartbeat

# The thread of a slot: take what the network has, run one container, send what came of it, and again.

QUEUE_BYTES = 64 << 20
"""A slot runs no further container while so much waits for a peer to take it."""
FED_BYTES = 64 << 20
"""Rows of a micro-batch beyond so many bytes wait on disk for the container that they are for."""
_IDLE_SECONDS = 1.0
_FULL_SECONDS = 0.01


class SlotLoop:
    """Connects a `Slot` with a network. One thread.

    The slot's peers are those of the last `Host`. Of two slots the one with the higher number connects. No
    container runs before all are connected: while a callback runs no call is answered. What is sent to a
    peer that is not connected waits here.
    """

    def __init__(self, slot: Slot, network: Network, stram: Peer) -> None:
        self._slot = slot
        self._network = network
        self._stram = stram
        self._peers: dict[int, Peer] = {}
        self._addresses: dict[Peer, Address] = {}
        self._waiting: dict[Peer, list[Between]] = {}
        """Messages that could not be sent yet, by peers that are not connected."""
        self._open: set[Peer] = set()
        self._missing: set[Peer] = set()
        """Partners that are not connected."""
        self._woken = False
        """`wake` was called."""
        self._congested: set[Peer] = set()
        self.lost_stram: Lost | None = None
        """How the connection to STRAM has ended, if it has."""
        self.got_message = False
        """STRAM has said something."""

    def serve(self) -> None:
        """Work until STRAM ends the slot, or is gone; then all containers are torn down."""
        while not self._slot.over:
            self.turn(_IDLE_SECONDS)

    def wake(self) -> None:
        """An input has something to emit. From any thread."""
        self._woken = True
        self._network.wake()

    def turn(self, seconds: float) -> None:
        """Take in what has come, run one container, send; waits at most so long if there is nothing to do."""
        self._congested = {peer for peer in self._congested if self._network.queued_bytes(peer) > QUEUE_BYTES}
        if self._congested:
            seconds = _FULL_SECONDS
        elif self._slot.ready and not self._missing:
            seconds = 0.0
        if seconds > 0:
            self._slot.busy.rest()
        events = self._network.poll(seconds)
        self._slot.busy.resume()
        for event in events:
            self._take(event)
        if self._woken:
            self._woken = False
            self._slot.awake()
        if self._slot.ready and not self._congested and not self._missing:
            self._slot.step()
        self._send()

    # What comes in ------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        """Take in what the network has; a peer that sends nonsense is hung up on."""
        match event:
            case Received(peer):
                try:
                    self._receive(event)
                except MalformedError as error:
                    self._network.hang_up(peer)
                    self._lost(peer, MALFORMED, str(error))
            case Opened(peer):
                self._open.add(peer)
                self._missing.discard(peer)
                for message in self._waiting.pop(peer, ()):
                    self._send_to(peer, message)
            case Lost(peer, reason, detail):
                self._lost(peer, reason, detail)

    def _receive(self, frame: Received) -> None:
        """Take a message in. Raises MalformedError for one that such a peer does not send."""
        message = decode(frame)
        allowed = ToSlot if frame.peer == self._stram else Fed if frame.peer.slot == FEEDER else Between
        if not isinstance(message, allowed):
            raise MalformedError(f"{frame.peer} sent `{type(message).__name__}`, which is not for slots")
        if isinstance(message, Blocks | Finished):
            self._slot.from_slot(message)
            return
        if isinstance(message, Fed):
            self._feed(frame.peer, message)
            return
        self.got_message = True
        if isinstance(message, SetLevels):
            log_channel.follow(message.levels)
            return
        self._slot.from_stram(message)
        if isinstance(message, Host):
            self._follow_host(message)
        if isinstance(message, Host) or (
            isinstance(message, RunAttempt) and message.request.states is not None
        ):
            self._connect()

    def _feed(self, feeder: Peer, fed: Fed) -> None:
        """Take rows of a micro-batch in; say so if nothing more of the task is needed."""
        fed, size_bytes = kept(fed, FED_BYTES - self._slot.fed_bytes)
        if not self._slot.from_feeder(feeder.attempt, fed, size_bytes):
            self._network.send(feeder, *encode(Taken(fed.container)))

    def _follow_host(self, message: Host) -> None:
        """The partners are others now.

        A line to one that is no partner any more stays: it may not know yet, and would take it for a loss.
        But if it stands still, no other waits for it.
        """
        self._peers = {peer.slot: peer for peer in message.peers}
        self._addresses = dict(message.peers)
        for peer in list(self._waiting):
            if peer not in self._addresses:
                del self._waiting[peer]
        self._congested = {peer for peer in self._congested if peer in self._addresses}
        for peer in [one for one in self._open if self._is_gone(one)]:
            self._open.discard(peer)
            self._network.hang_up(peer)
        self._missing = {self._peers[number] for number in self._slot.partners} - self._open

    def _is_gone(self, peer: Peer) -> bool:
        """True if another process is now what a slot that is connected was.

        One that is newer than the last `Host` knows is there: the next `Host` names it, and is on its way.
        """
        named = self._peers.get(peer.slot)
        return named is not None and named.attempt > peer.attempt

    def _connect(self) -> None:
        """Connect to all partners of lower numbers, as far as there is no connection."""
        for number in self._slot.partners:
            if number < self._network.me.slot:
                self._network.connect(self._peers[number], self._addresses[self._peers[number]])

    def _lost(self, peer: Peer, reason: str, detail: str) -> None:
        """There is no connection to a peer. Without STRAM there is nothing more to do.

        One that takes calls and does not answer is busy: it is called again, and nothing is lost.
        """
        was_open = peer in self._open
        self._open.discard(peer)
        if peer == self._stram:
            self.lost_stram = Lost(peer, reason, detail)
            self._slot.close()
        elif peer.slot == FEEDER:
            self._slot.feeder_lost(peer.attempt)
        elif self._peers.get(peer.slot) == peer and peer.slot in self._slot.partners:
            self._missing.add(peer)
            if reason == LATE and not was_open:
                self._connect()
            else:
                self._waiting.pop(peer, None)
                self._slot.partner_lost()
                self._send_to_stram(Unreachable(peer, f"{reason}: {detail}" if detail else reason))

    # What goes out ------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send what the slot has to send, to other slots first: their containers wait for it."""
        to_slots, to_stram = self._slot.take()
        for number, message in to_slots:
            self._send_to(self._peers[number], message)
        for answer in to_stram:
            self._send_to_stram(answer)

    def _send_to_stram(self, message: FromSlot) -> None:
        self._network.send(self._stram, *encode(message))

    def _send_to(self, peer: Peer, message: Between) -> None:
        """Send to another slot, once it is connected."""
        if peer not in self._open:
            self._waiting.setdefault(peer, []).append(message)
            return
        try:
            sent = self._network.send(peer, *encode(message))
        except ValueError as error:
            self._refuse(message, error)
            return
        if sent and isinstance(message, Blocks) and self._network.queued_bytes(peer) > QUEUE_BYTES:
            self._congested.add(peer)

    def _refuse(self, message: Between, error: ValueError) -> None:
        """A frame is too large: the container that made it has failed."""
        if isinstance(message, Blocks):
            what = (
                f"its output for container {message.container} cannot be sent: {error}; emit smaller batches"
            )
            self._slot.fail(
                message.message.producer, message.window_id, message.attempt, RidgelineError(what)
            )


_MOST_QUEUED_BYTES = 1 << 20
JOINS = 1_000
"""So often one task may join, and so many attempts lie between those of two tasks."""
_CUT = {CUT, BROKEN}
"""How a connection to STRAM ends that a cut network has ended: also by what comes of it at the other end."""
_UNREACHED = {CUT, UNREACHABLE, LATE}
"""How an attempt to reach STRAM ends while the network is cut."""
_REDIAL_SECONDS = 3.0
_REST_SECONDS = 0.5
PROPERTY = "ridgeline.slot.secret"
"""The local property's name. Has `secret` in it, for `redact`: Spark's event log has no value of it."""


@dataclass(frozen=True, slots=True)
class SlotTask(TaskParameters):
    """The parameters of a slot's task.

    The attempt of the slot's `Peer` is `first_attempt`, plus `JOINS` for each attempt of Spark's before, plus
    how often the task has joined before. So no two processes are the same peer, nor is one that was cut off.
    `epoch`: the attempt of STRAM's `Peer`. `stram`: where it listens.

    `listen`: where the slot does, and the application's certificate. With a host to bind to and none to
    advertise, the slot advertises its own name, and the address with which it reaches STRAM. `s3`: how S3 is
    reached. `silent_seconds`: a host that acknowledges nothing for so long is cut off. `redial_seconds`: so
    long a slot that was cut off tries to reach STRAM again.
    """

    slot: int
    first_attempt: int
    epoch: int
    stram: Address
    listen: Listen = field(default_factory=Listen, repr=False)
    s3: Mapping[str, Any] = field(default_factory=files.s3_settings, repr=False)
    silent_seconds: float = SILENT_SECONDS
    redial_seconds: float = 0.0


def serve(_index: int, _records: Iterable[object]) -> Iterator[bytes]:
    """Be a slot until STRAM ends it or is gone. Yields nothing. Raises RidgelineError if it cannot listen.

    If the network is cut it tears its containers down, and joins again once STRAM can be reached.
    """
    context: Any = TaskContext.get()
    end_orderly()
    with contextlib.suppress(OSError):  # no dumps then
        stacks.register()
    task = SlotTask.decode(context.getLocalProperty(PROPERTY))
    files.use_s3(task.s3)
    serve_while_reached(task, context.attemptNumber(), _listen(task))
    yield from ()


def serve_while_reached(task: SlotTask, task_attempt: int, listen: Listen) -> None:
    """Be a slot, again and again while a cut network has kept it from STRAM; for `redial_seconds` at most.

    Where nothing listens for slots any more the driver is gone: that is the end at once.
    """
    stram = Peer(STRAM, task.epoch)
    first = task.first_attempt + JOINS * task_attempt
    give_up_at = CLOCK.monotonic()
    for joined in range(JOINS):
        limits = Limits(silent_seconds=task.silent_seconds)
        if joined:
            limits = replace(limits, connect_seconds=_REDIAL_SECONDS)
        network = Sockets(Peer(task.slot, first + joined), listen, CLOCK, limits)
        try:
            network.connect(stram, task.stram)
            with short_pauses():
                loop = join(network, stram)
                loop.serve()
        finally:
            network.close()
        if loop.got_message:
            # Counted from the last time that STRAM was reached.
            give_up_at = CLOCK.monotonic() + task.redial_seconds
        cut_off = loop.lost_stram is not None and loop.lost_stram.reason in (
            _CUT if loop.got_message else _UNREACHED
        )
        if not cut_off or CLOCK.monotonic() >= give_up_at:
            return
        CLOCK.wait(_REST_SECONDS)


def _listen(task: SlotTask) -> Listen:
    """Where to listen: in STRAM's folder if it is seen from here, since STRAM removes it at the end."""
    listen = task.listen
    if listen.host is not None and listen.advertised is None:
        listen = replace(listen, advertised=socket.gethostname())
    ways = [way for way in ways_of(task.stram) if isinstance(way, UnixWay)]
    far = [way for way in ways_of(task.stram) if isinstance(way, TlsWay)]
    if listen.host is not None and far:
        listen = replace(listen, also=own_address(far[0]))
    seen = [folder for way in ways if (folder := Path(way.path).parent).is_dir()]
    return replace(listen, folder=str(seen[0])) if seen else listen


def join(network: Network, stram: Peer) -> SlotLoop:
    """A slot in this process, which has sent `Joined` to STRAM; `network` is connecting to STRAM."""
    me = network.me
    joined = Joined(socket.gethostname(), os.getpid(), network.address)
    network.send(stram, *encode(joined))
    tag = f"s{me.slot}a{me.attempt}"
    containers = Containers(tag, partial(send_figures, network, stram))
    loop = SlotLoop(Slot(me.slot, containers, CLOCK), network, stram)
    containers.on_wake = loop.wake
    return loop


def send_figures(
    network: Network, stram: Peer, figures: Callable[[], ContainerHeartbeat | ProcessLines]
) -> bool:
    """Send a heartbeat or lines, as `Send`, also while the slot's own thread runs a callback.

    Not while STRAM takes nothing: what it will find then is old.
    """
    if network.queued_bytes(stram) > _MOST_QUEUED_BYTES:
        return False
    return network.send(stram, *encode(Heartbeat(figures())))
