"""The messages between STRAM and slots, and of slots among themselves.

All connections are ordered: of what one sender sends, the earlier arrives first or not at all. Nothing is
known about the order of messages of different senders. So a slot may get blocks of an attempt before it
learns of the attempt from STRAM.

An attempt is named by its window and its number. STRAM never gives the same number twice: where it begins a
window again, however little of it had been begun, it takes the next one.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

from typing_extensions import Buffer

from ridgeline.api.errors import Failure, RidgelineError, described
from ridgeline.engine.container.feed import Fed
from ridgeline.engine.exchange.block import Message
from ridgeline.engine.exchange.network import Peer, Received
from ridgeline.engine.exchange.shared_blocks import SharedPlace
from ridgeline.engine.process.plan_distribution import ShippedPlan
from ridgeline.engine.process.said_lines import ProcessLines
from ridgeline.measure.events import ContainerHeartbeat
from ridgeline.plan.protocol import StateVersion, WindowRequest

Address: TypeAlias = str
"""Where a slot, or STRAM, can be reached, as its `Network` writes it."""

# From STRAM to a slot ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Host:
    """The containers that a slot hosts, and where their partners are. The first message to a slot.

    It is sent again when the slot's containers are others, and when partners have come, gone or moved.
    Containers that the slot hosts already stay as they are, those that are no longer named are torn down.

    `plan`: the specs of at least these containers. `containers`: those of this slot. `slots`:
    the slot of every container that exchanges blocks with one of these (more do no harm). `peers`: who these
    slots are now and where they are reached; so all of them have joined.
    """

    checkpoint: str
    plan: ShippedPlan
    run_id: str
    containers: tuple[int, ...]
    slots: Mapping[int, int]
    peers: Mapping[Peer, Address]
    heartbeat_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Prepare:
    """Read a plan that a `Host` may name later. Answered by `Prepared`; windows run meanwhile."""

    checkpoint: str
    plan: ShippedPlan


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """Run an attempt at a window.

    `request.states` are those of the slot's own containers: each container goes to them first, and all
    attempts begun before are void, whatever their window. None: it continues with the state after the window
    before, as it made it. `place`: where blocks may lie by reference, None for nowhere. `fed`: the tasks of
    the window's micro-batch whose rows each container of a Spark source gets. `committed`: as a `Committed`
    that follows, -1 for none.
    """

    request: WindowRequest
    place: SharedPlace | None = None
    fed: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    committed: int = -1


@dataclass(frozen=True, slots=True)
class Committed:
    """All windows up to this one are committed. Where a `RunAttempt` follows at once it says so instead."""

    window_id: int


@dataclass(frozen=True, slots=True)
class SetLevels:
    """Give these loggers of the process these levels, and all others those that they had before."""

    levels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class End:
    """Tear all containers down, answer with `Ended` and go."""


ToSlot: TypeAlias = Host | Prepare | RunAttempt | Committed | SetLevels | End


# From a slot to STRAM ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Joined:
    """A slot is there and hosts nothing yet. The first message to STRAM.

    `address`: where other slots reach it.
    """

    host: str
    pid: int
    address: Address


@dataclass(frozen=True, slots=True)
class Reported:
    """Containers have run attempts: a tuple of `WindowReport`, as `api.support.pickling.dumps` writes it.

    Pickled together they take less than half the time that they take one by one.
    """

    reports: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """A container failed in an attempt; it runs nothing more until a `RunAttempt` with states.

    `attempt` is -1 if `committed` of the window failed, or `window_id` is -1 too if it could not be made.
    """

    container: int
    window_id: int
    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan of this name was read, and all of its code imported. `failure`: why it could not be."""

    plan: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Awake:
    """Inputs that had nothing to emit, as the last reports say, have something now."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The progress of a process, or the lines that its operators have printed and logged."""

    figures: ContainerHeartbeat | ProcessLines = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The connection with another slot is lost, and maybe what was sent on it.

    So attempts that are in flight may never end. If the other slot is still there, STRAM begins them again;
    the next `RunAttempt` with states makes both connect again.
    """

    peer: Peer
    detail: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The slot has torn its containers down and goes: what failed in it. Its last message."""

    failures: tuple[Failure, ...] = ()


FromSlot: TypeAlias = Joined | Prepared | Reported | Awake | Heartbeat | Failed | Unreachable | Ended


# Between slots ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blocks:
    """The message of a container to another in an attempt, or a part of it.

    `ended`: as a `Finished` that follows.
    """

    window_id: int
    attempt: int
    container: int
    message: Message
    ended: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finished:
    """END_WINDOW: all blocks of these containers in the attempt have been sent to the receiving slot.

    `ended`: the tag of each producing container's run. One message holds all that ended in one turn.
    """

    window_id: int
    attempt: int
    ended: Mapping[int, str] = field(default_factory=dict)


Between: TypeAlias = Blocks | Finished


# Between tasks of a micro-batch and slots -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """A slot's answer to a task: this container has all of it, or needs none of it."""

    container: int


# In frames --------------------------------------------------------------------------------------------------

AnyMessage: TypeAlias = ToSlot | FromSlot | Between | Fed | Taken
_KINDS: tuple[type[AnyMessage], ...] = (
    Host, RunAttempt, Committed, End, Joined, Reported, Awake, Heartbeat, Failed, Unreachable,
    Ended, Blocks, Finished, Fed, Taken, Prepare, Prepared, SetLevels,
)  # fmt: skip
Frame: TypeAlias = tuple[int, bytes, Sequence[Buffer]]
"""Kind, head and buffers, as a `Network` sends them."""
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}
_FIELDS = tuple(tuple(field.name for field in fields(kind)) for kind in _KINDS)


def encode(message: AnyMessage) -> Frame:
    """Encode a message as kind, head and buffers of a frame; columns of blocks are not copied.

    Raises what pickle raises for operators' own values.
    """
    kind = _NUMBERS[type(message)]
    buffers: list[pickle.PickleBuffer] = []
    values = [getattr(message, name) for name in _FIELDS[kind]]
    head = pickle.dumps(values, 5, buffer_callback=buffers.append)
    return kind, head, buffers


def encode_for_each(run: RunAttempt) -> Callable[[Mapping[int, StateVersion]], Frame]:
    """An encoder of an attempt for one slot after the other, each with states of its own.

    The rest is encoded once: with many slots that is most of the work.
    """
    request: Any = replace(run.request, states=_Apart())  # type: ignore[arg-type]
    kind, head, _ = encode(replace(run, request=request))
    return lambda states: (kind, head, (pickle.dumps(states, 5),))


class _Apart:
    """Stands for what lies behind the head of a frame: the states of a request."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[pickle.PickleBuffer]]:
        return pickle.loads, (pickle.PickleBuffer(b""),)


class SharedMapping(dict[Any, Any]):
    """A mapping that several messages have: it is encoded once, and lies behind the head of each frame.

    Where all partitions send to all, the slots of a stage have the same partners, and many of them.
    """

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[..., object], tuple[pickle.PickleBuffer]]:
        return pickle.loads, (pickle.PickleBuffer(self._encoded),)

    @cached_property
    def _encoded(self) -> bytes:
        return pickle.dumps(dict(self), 5)


def decode(frame: Received) -> AnyMessage:
    """The message in a frame of an authenticated peer; blocks lie in the frame's memory.

    Raises MalformedError for what `encode` does not write.
    """
    try:
        return _KINDS[frame.kind](*pickle.loads(frame.head, buffers=frame.buffers))
    except Exception as error:
        raise MalformedError(
            f"{frame.peer} sent a frame of kind {frame.kind} that cannot be read: {described(error)}"
        ) from error


class TaskParameters:
    """What the driver gives a task of Spark, as text: a local property of its job."""

    __slots__ = ()

    def encode(self) -> str:
        """As text."""
        return base64.b64encode(pickle.dumps(self, 5)).decode()

    @classmethod
    def decode(cls, text: str) -> Self:
        """From text."""
        found: Self = pickle.loads(base64.b64decode(text))
        return found


class MalformedError(RidgelineError):
    """A frame of a peer holds no message: the other end runs another version."""
