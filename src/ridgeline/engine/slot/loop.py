"""The thread of a slot: take what the network has, run one container, send what came of it, and again."""

from __future__ import annotations

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.container.feed import Fed, kept
from ridgeline.engine.exchange.network import (
    FEEDER,
    LATE,
    MALFORMED,
    Event,
    Lost,
    Network,
    Opened,
    Peer,
    Received,
)
from ridgeline.engine.process import log_levels
from ridgeline.engine.slot.messages import (
    Address,
    Between,
    Blocks,
    Finished,
    FromSlot,
    Host,
    MalformedError,
    RunAttempt,
    SetLevels,
    Taken,
    ToSlot,
    Unreachable,
    decode,
    encode,
)
from ridgeline.engine.slot.slot import Slot

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
            log_levels.follow(message.levels)
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
