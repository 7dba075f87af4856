"""Rows of a micro-batch in a slot: of each task one whole run, in its order, in whatever way they come."""

import io
import struct
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.api.errors import Failure, OperatorError
from ridgeline.engine.container.feed import Fed, FedRows, Reading, container_of, fed_by, kept
from ridgeline.engine.exchange.network import FEEDER, LATE, STRAM, Lost, Opened, Peer, Received
from ridgeline.engine.operator.failures import InputLostError
from ridgeline.engine.process.plan_distribution import PlanFile
from ridgeline.engine.slot import task as slot_loop
from ridgeline.engine.slot.feed_task import Feeder, FeedTask, WholeInput
from ridgeline.engine.slot.messages import Blocks, Host, RunAttempt, Taken, decode, encode
from ridgeline.engine.slot.slot import Slot
from ridgeline.plan.protocol import WindowRequest
from ridgeline.testing import SteppingClock
from support.depth import deep
from support.engine.slots import specs_of

TASKS, RUNS = 3, 3
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
    slot.from_stram(Host("m", PlanFile("p"), "run", 0, (0,), {0: 0}, {Peer(0): "x"}))
    return slot, containers


def messages_of(task, run, attempt, *, whole):
    """What a run of a task sends; its values say whose they are."""
    sent = [Fed(0, attempt, 0, task, IPC, (rows(100 * attempt + 10 * task + n),)) for n in range(3)]
    return [(run, fed) for fed in sent] + (
        [(run, Fed(0, attempt, 0, task, IPC, (), Reading(0.5, 1.0)))] if whole else [(run, None)]
    )


@settings(deadline=None, max_examples=deep(25))
@given(st.randoms(use_true_random=False))
def test_each_task_counts_once_however_often_it_is_run(luck: Random):
    slot, containers = hosting()
    queues, run = [], 0
    for attempt in (0, 1):
        for task in range(TASKS):
            for number in range(luck.randint(1, RUNS)):
                run += 1
                whole = (attempt == 1 and number == 0) or luck.random() < 0.5
                queues.append(messages_of(task, run, attempt, whole=whole))
    queues += [[(0, RunAttempt(WindowRequest(0, attempt, 0, states={}), None, {0: tuple(range(TASKS))}))]
               for attempt in (0, 1)]  # fmt: skip
    begun = set()
    while queues:
        queue = luck.choice(queues)
        run, message = queue[0]
        if isinstance(message, RunAttempt) and message.request.attempt and 0 not in begun:
            continue  # STRAM begins them in order
        queue.pop(0)
        queues = [queue for queue in queues if queue]
        if isinstance(message, RunAttempt):
            begun.add(message.request.attempt)
            slot.from_stram(message)
        elif message is None:
            slot.feeder_lost(run)
        else:
            slot.from_feeder(run, message, 8)
        while slot.ready:
            slot.step()
    expected = {
        attempt: [100 * attempt + 10 * task + n for task in range(TASKS) for n in range(3)]
        for attempt in (0, 1)
    }
    assert all(found == expected[attempt] for attempt, found in containers.got)
    assert [attempt for attempt, _ in containers.got] in ([1], [0, 1])


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


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 12))
def test_every_task_feeds_one_container_of_each_source(sizes, tasks):
    first = [sum(sizes[:n]) for n in range(len(sizes))]
    sources = [tuple(range(begin, begin + size)) for begin, size in zip(first, sizes, strict=True)]
    found = fed_by(sources, tasks)
    for task in range(tasks):
        for number, containers in enumerate(sources):
            assert [one for one in containers if task in found.get(one, ())] == [
                container_of(sources, number, task)
            ]


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

    task = FeedTask(5, 1, ((7,),), IPC, {7: (slot, "x")}, b"")
    assert not Feeder(wire, task, 0, SteppingClock(), 0.0, 0).feed(messages())
    assert wire.connected == [slot, slot]
    [(to, fed)] = wire.sent
    assert (to, fed.window_id, fed.attempt, fed.container) == (slot, 5, 1, 7)
    assert values_of(FedRows((fed,))) == [0, 1, 2]
