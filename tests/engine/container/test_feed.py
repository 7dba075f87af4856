"""Rows of a micro-batch in a slot: of each task one whole run, in its order, in whatever way they come."""

import io
import struct

import pyarrow as pa
import pytest

from ridgeline.api.errors import Failure, OperatorError
from ridgeline.engine.container.feed import Fed, FedRows, Reading, kept
from ridgeline.engine.exchange.network import FEEDER, LATE, STRAM, Lost, Opened, Peer, Received
from ridgeline.engine.operator.failures import InputLostError
from ridgeline.engine.process.plan_distribution import ShippedPlan
from ridgeline.engine.slot import task as slot_loop
from ridgeline.engine.slot.feed_task import Feeder, FeedTask, WholeInput
from ridgeline.engine.slot.messages import Blocks, Host, RunAttempt, Taken, decode, encode
from ridgeline.engine.slot.slot import Slot
from ridgeline.plan.protocol import WindowRequest
from ridgeline.testing import SteppingClock
from support.engine.slots import specs_of

SCHEMA = pa.schema([pa.field("value", pa.int64())])
IPC = SCHEMA.serialize().to_pybytes()


def rows(*values):
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA).serialize()


class OneContainer:
    """Notes the rows that its container gets."""

    uri = "memory:"

    def __init__(self):
        self.specs = {}
        self.got = []

    def host(self, _message):
        self.specs = specs_of([1], {})

    def run(self, _container, request, _messages, _began, _place, fed):
        self.got.append((request.attempt, values_of(fed)))
        raise OperatorError(Failure("app", "x", 0, 0, "process", "nothing is to be reported"))


def values_of(fed):
    return [value for batch in fed or () for value in batch.column(0).to_pylist()]


def hosting():
    """A slot with one container, which notes what it gets."""
    containers = OneContainer()
    slot = Slot(0, containers, SteppingClock())
    slot.from_stram(Host("m", ShippedPlan("p"), "run", (0,), {0: 0}, {Peer(0): "x"}))
    return slot, containers


def test_what_is_not_needed_is_said_so():
    slot, _ = hosting()
    slot.from_stram(RunAttempt(WindowRequest(0, 1, 0, states={}), None, {0: (0,)}))
    assert not slot.from_feeder(1, Fed(0, 0, 0, 0, IPC, (rows(1),)), 8)  # of an attempt that is over
    assert slot.from_feeder(2, Fed(0, 1, 0, 0, IPC, (rows(1),)), 8)
    assert slot.from_feeder(3, Fed(0, 1, 0, 0, IPC, (rows(1),)), 8)
    assert slot.fed_bytes == 16
    assert not slot.from_feeder(2, Fed(0, 1, 0, 0, IPC, (), Reading(0.0, 0.0)), 0)
    assert slot.fed_bytes == 8
    assert not slot.from_feeder(3, Fed(0, 1, 0, 0, IPC, (rows(2),)), 8)  # another run was whole before


def test_rows_without_room_wait_on_disk():
    fed = Fed(0, 0, 0, 0, IPC, (rows(1, 2), rows(3)))
    held, size = kept(fed, 0)
    assert size == 0
    assert [one.is_cpu for one in held.rows] == [True, True]
    assert values_of(FedRows((held,))) == [1, 2, 3]
    assert kept(fed, 1 << 20) == (fed, sum(row.size for row in fed.rows))


def test_rows_of_any_size_come_back_from_the_disk():
    fed = Fed(0, 0, 0, 0, IPC, tuple(pa.py_buffer(bytes([size]) * size) for size in (3, 8, 1, 65)))
    held, size = kept(fed, 0)
    assert size == 0
    assert [bytes(row) for row in held.rows] == [bytes(row) for row in fed.rows]


def test_a_disk_that_cannot_be_written_to_costs_memory_only(monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/nowhere")
    fed = Fed(0, 0, 0, 0, IPC, (rows(1),))
    assert kept(fed, 0) == (fed, fed.rows[0].size)


def test_rows_travel_without_a_copy():
    kind, head, buffers = encode(Fed(0, 0, 0, 0, IPC, (rows(1), rows(2))))
    assert len(buffers) == 2
    frame = Received(Peer(FEEDER, 1), kind, memoryview(head), [memoryview(one) for one in buffers])
    assert values_of(FedRows((decode(frame),))) == [1, 2]


def test_input_that_breaks_off_is_no_end():
    whole = struct.pack("!i", 3) + b"abc" + struct.pack("!i", -1)
    assert list(WholeInput().load_stream(io.BytesIO(whole))) == [b"abc"]
    for cut in range(len(whole)):
        with pytest.raises(InputLostError, match="broke off"):
            list(WholeInput().load_stream(io.BytesIO(whole[:cut])))


class Wire:
    """A network by hand."""

    me = Peer(0)

    def __init__(self):
        self.events, self.sent, self.connected = [], [], []

    def connect(self, peer, _address):
        self.connected.append(peer)
        self.events.append(Lost(peer, LATE) if len(self.connected) == 1 else Opened(peer))

    def poll(self, _seconds):
        events, self.events = self.events, []
        return events

    def send(self, peer, kind, head, buffers=()):
        frame = Received(peer, kind, memoryview(head), [memoryview(one) for one in buffers])
        self.sent.append((peer, message := decode(frame)))
        if isinstance(message, Fed) and message.ended:
            self.events.append(received(peer, Taken(message.container)))
        return True

    def hang_up(self, peer):
        self.sent.append((peer, None))

    def queued_bytes(self, _peer):
        return 0


def received(peer, message):
    kind, head, buffers = encode(message)
    return Received(peer, kind, memoryview(head), [memoryview(one) for one in buffers])


@pytest.mark.parametrize("room_bytes", [0, 1 << 20])
def test_a_feeder_may_send_rows_only_and_hears_when_all_is_taken(monkeypatch, room_bytes):
    monkeypatch.setattr(slot_loop, "FED_BYTES", room_bytes)
    slot, containers = hosting()
    wire, feeder = Wire(), Peer(FEEDER, 7)
    loop = slot_loop.SlotLoop(slot, wire, Peer(STRAM))
    run = RunAttempt(WindowRequest(0, 0, 0, states={}), None, {0: (0,)})
    wire.events = [Opened(feeder), received(feeder, Fed(0, 0, 0, 0, IPC, (rows(1),)))]
    loop.turn(0.0)
    assert bool(slot.fed_bytes) == bool(room_bytes)
    wire.events = [Lost(feeder, "broken"), Opened(Peer(FEEDER, 8)), received(Peer(STRAM), run)]
    loop.turn(0.0)
    assert containers.got == []
    again = Fed(0, 0, 0, 0, IPC, (rows(2),), Reading(0.0, 0.0))
    wire.events = [received(Peer(FEEDER, 8), again)]
    loop.turn(0.0)
    assert containers.got == [(0, [2])]
    assert (Peer(FEEDER, 8), Taken(0)) in wire.sent
    wire.events = [received(Peer(FEEDER, 8), Blocks(0, 0, 0, None))]
    loop.turn(0.0)
    assert (Peer(FEEDER, 8), None) in wire.sent


def test_a_task_calls_its_slot_once_it_has_rows_and_again_if_it_is_busy():
    wire, slot = Wire(), Peer(3)

    def messages():
        for value in range(3):
            assert wire.connected == []
            yield rows(value).to_pybytes()

    task = FeedTask(5, 1, ((7,),), IPC, {7: (slot, "x")})
    assert not Feeder(wire, task, 0, SteppingClock(), 0.0, 0).feed(messages())
    assert wire.connected == [slot, slot]
    [(to, fed)] = wire.sent
    assert (to, fed.window_id, fed.attempt, fed.container) == (slot, 5, 1, 7)
    assert values_of(FedRows((fed,))) == [0, 1, 2]
