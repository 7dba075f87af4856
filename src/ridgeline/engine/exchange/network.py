"""The network as a slot, or STRAM, sees it: peers, frames, and three kinds of events.

`Network` is all that the engine knows of the wire. `engine/exchange/sockets.py` has the one of real sockets.
A simulation puts another one in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from typing_extensions import Buffer

from ridgeline.api.errors import RidgelineError

STRAM = -1
"""The number that STRAM has where slots have theirs."""
FEEDER = -2
"""The number of every task that hands rows of a micro-batch to slots; each run of one has its own attempt."""

UNAUTHENTICATED = "unauthenticated"
MALFORMED = "malformed"
TOO_LARGE = "too large"
LATE = "late"
TOO_MANY = "too many"
REASONS = (UNAUTHENTICATED, MALFORMED, TOO_LARGE, LATE, TOO_MANY)
"""Why something that came in was refused."""
CLOSED = "closed"
"""The other end has ended the connection, in order."""
BROKEN = "broken"
"""The connection ended in the middle of a frame, or by an error: the process or its host is gone."""
CUT = "cut off"
"""The other host acknowledges nothing any more: the network is cut, or the host is gone."""
UNREACHABLE = "unreachable"
"""No way to the peer took a connection."""
NO_LISTENER = "nobody listens"
"""As UNREACHABLE, and the peer's host says so: the peer has ended."""
REPLACED = "replaced"
"""The same peer has opened a newer connection."""
_NAMES = {STRAM: "STRAM", FEEDER: "a task of the micro-batch"}


class Peer(NamedTuple):
    """Who is at the other end.

    Each attempt of a slot is a peer of its own: what is for one never reaches the next.

    `slot`: its number, `STRAM` or `FEEDER`. `attempt`: how often Spark had begun the slot's task before, or
    the epoch, or Spark's number of the run of a task.
    """

    slot: int
    attempt: int = 0

    def __str__(self) -> str:
        name = _NAMES.get(self.slot) or f"slot {self.slot}"
        return f"{name} (attempt {self.attempt})"


class RefusedError(RidgelineError):
    """A received message does not count, and its connection ends; `reason` is one of REASONS."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)


class EndedError(Exception):
    """The connection has ended; `reason` as in `Lost`, and the text is its detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class Opened:
    """Both ends have said who they are. Comes once for each connection, before its frames."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class Received:
    """One whole frame. `kind` is the sender's number, the engine gives it its meaning.

    `head` and `buffers` are read-only and lie in one piece of memory, which lives as long as one of them.
    Each begins at a multiple of 8: Arrow blocks are read where they lie.
    """

    peer: Peer
    kind: int
    head: memoryview
    buffers: Sequence[memoryview]


@dataclass(frozen=True, slots=True)
class Lost:
    """There is no connection to the peer any more, or `connect` could not make one: the peer's last event.

    `reason`: CLOSED, BROKEN, CUT, UNREACHABLE, NO_LISTENER, REPLACED or one of REASONS. `detail`: a text.
    """

    peer: Peer
    reason: str
    detail: str = ""


Event: TypeAlias = Opened | Received | Lost


class Network(Protocol):
    """Connections of one process to its peers, polled by one thread. Nothing blocks but `poll` and `close`.

    Of two peers one connects and the other listens. Slots connect to STRAM, a slot to those of lower number,
    and tasks of a micro-batch to slots. If a peer connects again, its older connection is `Lost` (REPLACED),
    then the new one `Opened`. Frames of a connection arrive whole, once and in order, up to its loss. What
    was sent and not received then is lost with it: nothing is sent again.
    """

    @property
    def me(self) -> Peer:
        """Who this end is."""

    @property
    def address(self) -> str:
        """Where others connect to: all ways to here in one text, such as `unix:/tmp/x/s,tls:10.0.0.7:4040`.

        A peer takes the first way that works from where it is.
        """

    @property
    def refused(self) -> Mapping[str, int]:
        """How many connections were refused so far, by each of REASONS. From any thread."""

    def connect(self, peer: Peer, address: str) -> None:
        """Begin to connect to a peer, given the `address` of its network.

        `Opened` or `Lost` follows. `Lost` too if another than `peer` answers. Call it again after `Lost` to
        try again. Does nothing for a peer that is connected, or is being connected to. Raises ValueError for
        a text that is no address.
        """

    def send(self, peer: Peer, kind: int, head: Buffer, buffers: Sequence[Buffer] = ()) -> bool:
        """Send a frame: at once as far as the peer takes it, the rest during `poll` and later calls.

        From any thread. May be called between `connect` and `Opened`. `head` and `buffers` are not copied if
        they are large: do not change them afterwards. False if there is no connection: `Lost` was reported,
        or follows. Raises ValueError for a frame beyond the limit on size.
        """

    def queued_bytes(self, peer: Peer) -> int:
        """How much was sent to a peer that the operating system has not yet taken; 0 without connection.

        From any thread. There is no limit on it: a sender looks here before it makes more.
        """

    def silent_seconds(self, peer: Peer) -> float:
        """For how long the host of a peer has acknowledged nothing; 0 for a moment that means nothing.

        0 too for a peer that is not connected. A process that only does not read is not silent.
        """

    def poll(self, seconds: float) -> Sequence[Event]:
        """Send what waits, and take what has come; wait at most so long for the first event.

        Returns early, perhaps without events, after `wake`. Returns at once if `seconds` <= 0.
        """

    def wake(self) -> None:
        """Make the running call of `poll`, else the next one, return at once. From any thread."""

    def hang_up(self, peer: Peer) -> None:
        """End the connection to a peer now, with what is queued. No further event of it comes, nor `Lost`."""

    def close(self, seconds: float = 1.0) -> None:
        """Listen no more, send what is queued, then end all connections in order; waits at most so long.

        Messages that come in meanwhile are dropped. May be called again.
        """
