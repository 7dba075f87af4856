"""One slot by hand: what it sends, what it keeps, what it does with failures and with what comes too late."""

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ridgeline.api.errors import Failure, OperatorError
from ridgeline.api.support.pickling import loads
from ridgeline.engine.exchange.block import Block, Message
from ridgeline.engine.exchange.network import LATE, STRAM, Lost, Opened, Peer, Received
from ridgeline.engine.process.plan_distribution import ShippedCode, ShippedPlan
from ridgeline.engine.slot.attempts import BusyTimes
from ridgeline.engine.slot.messages import (
    Awake,
    Blocks,
    Committed,
    End,
    Ended,
    Failed,
    Finished,
    Host,
    Joined,
    MalformedError,
    Prepare,
    Prepared,
    Reported,
    RunAttempt,
    SharedMapping,
    Unreachable,
    decode,
    encode,
    encode_for_each,
)
from ridgeline.engine.slot.slot import Slot
from ridgeline.engine.slot.task import QUEUE_BYTES, SlotLoop
from ridgeline.measure.events import ContainerWindow
from ridgeline.plan.protocol import OperatorReport, WindowReport, WindowRequest
from ridgeline.testing import SteppingClock
from support.engine.pushed import Fed
from support.engine.slots import specs_of
from support.engine.switchboard import Switchboard

ALL = dict.fromkeys([(one, other) for one in range(9) for other in range(9)], True)


class Recording:
    """Containers that note what they run; those in `fail` raise, those in `silent` emit nothing."""

    uri = "memory:"

    def __init__(self, specs):
        self._all = specs
        self.specs = {}
        self.ran: list[tuple[int, int, int]] = []
        self.got: dict[int, list[Message]] = {}
        self.fail: set[int] = set()
        self.silent: set[int] = set()
        self.report: Any = None
        self.closed = False
        self.commits: list[tuple[int, int, object]] = []
        self.cannot_read = ""

    def prepare(self, message):
        if message.plan.name == self.cannot_read:
            raise ImportError("no library")

    def host(self, message):
        self.specs = {number: self._all[number] for number in message.containers}

    def run(self, container, request, messages, task_began, place, rows=None):
        if container in self.fail:
            raise OperatorError(Failure("app", "x", 0, request.window_id, "process", "no", raised=True))
        self.ran.append((container, request.window_id, request.attempt))
        self.got[container] = list(messages)
        block = Block(0, "in", 0, pa.py_buffer(b"12345678"))
        window = ContainerWindow(
            0.0, request.window_id, request.attempt, container, "h", 1, "t", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        )
        report = WindowReport(window)
        if self.report is not None:
            report.operators.append(self.report)
        consumers = () if container in self.silent else self.specs[container].consumers
        return {number: Message(container, [block]) for number in consumers}, report

    def committed(self, container, window_id, states):
        self.commits.append((container, window_id, states))

    def close(self):
        self.closed = True
        return [Failure("app", "x", 0, -1, "teardown", "too")]


class WantsCommit:
    """A spec whose operators want to hear of commits."""

    wants_commit = True

    def __init__(self, spec):
        self._spec = spec

    def __getattr__(self, name):
        return getattr(self._spec, name)


def slot_of(stages, home, sends=ALL, number=0, specs=None):
    """A slot that hosts its containers."""
    containers = Recording(specs or specs_of(stages, sends))
    slot = Slot(number, containers, SteppingClock())
    slots = dict(enumerate(home))
    peers = {Peer(other): "x" for other in set(home)}
    slot.from_stram(
        Host("m", ShippedPlan("p"), "run", tuple(c for c, s in slots.items() if s == number), slots, peers)
    )
    return slot, containers


def begin(slot, window_id, attempt=0, *, states=False):
    slot.from_stram(RunAttempt(WindowRequest(window_id, attempt, 0, states={} if states else None)))


def work(slot):
    """Run all that can run; what is sent to slots and to STRAM."""
    to_slots, to_stram = [], []
    while True:
        slots, stram = slot.take()
        to_slots += slots
        to_stram += stram
        if not slot.ready:
            return to_slots, to_stram
        slot.step()


def windows_of(messages):
    reports = [report for one in messages if isinstance(one, Reported) for report in loads(one.reports)]
    return [(report.window.container, report.window.window_id) for report in reports]


def test_end_window_goes_once_to_each_slot_after_all_blocks_and_reports_go_together():
    slot, _ = slot_of((3, 4), (0, 0, 0, 1, 1, 2, 0))
    begin(slot, 0, states=True)
    to_slots, to_stram = work(slot)
    for other, consumers in ((1, 2), (2, 1)):
        to_it = [message for target, message in to_slots if target == other]
        assert [type(message) for message in to_it] == [Blocks] * 3 * consumers
        assert [message.ended for message in to_it if message.ended] == [{0: "t", 1: "t", 2: "t"}]
        assert to_it[-1].ended
    assert len(to_stram) == 1
    assert windows_of(to_stram) == [(0, 0), (1, 0), (2, 0), (6, 0)]


def test_a_report_says_how_long_it_waited_for_others(monkeypatch):
    slot, containers = slot_of((1, 2), (0, 0, 0))
    run = containers.run

    def takes_a_second(*arguments):
        slot._clock.advance(1.0)
        return run(*arguments)

    monkeypatch.setattr(containers, "run", takes_a_second)
    begin(slot, 0, states=True)
    _, (reported,) = work(slot)
    assert [report.held_seconds for report in loads(reported.reports)] == [2.0, 1.0, 0.0]


def test_a_plan_is_read_while_windows_go_on():
    slot, containers = slot_of((1, 1), (0, 0))
    containers.cannot_read = "bad"
    begin(slot, 0, states=True)
    for name in ("good", "bad"):
        slot.from_stram(Prepare("m", ShippedPlan(name)))
    _, to_stram = work(slot)
    good, bad = (message for message in to_stram if isinstance(message, Prepared))
    assert good == Prepared("good")
    assert bad.plan == "bad"
    assert "no library" in bad.failure.error
    assert windows_of(to_stram) == [(0, 0), (1, 0)]
    begin(slot, 1)
    assert windows_of(work(slot)[1]) == [(0, 1), (1, 1)]


def test_a_commit_is_told_to_containers_before_they_go():
    specs = {number: WantsCommit(spec) for number, spec in specs_of((1, 1), ALL).items()}
    slot, containers = slot_of((1, 1), (0, 0), specs=specs)
    begin(slot, 0, states=True)
    work(slot)
    slot.from_stram(Committed(0))
    slot.from_stram(Host("m", ShippedPlan("next"), "run", (1,), {1: 0}, {Peer(0): "x"}))
    assert containers.commits == [(0, 0, None), (1, 0, None)]
    assert not slot.ready


def test_a_partition_that_waits_for_one_producer_does_not_wait_for_its_neighbour():
    one_to_one = {(0, 2): True, (1, 3): True}
    slot, _ = slot_of((2, 2), (0, 0, 1, 1), {pair: pair in one_to_one for pair in ALL})
    begin(slot, 0, states=True)
    slot.step()
    to_slots, _ = slot.take()
    assert [message.ended for _, message in to_slots] == [{0: "t"}]


def test_end_window_without_blocks_goes_by_itself():
    slot, containers = slot_of((2, 2), (0, 0, 1, 1))
    containers.silent = {1}
    begin(slot, 0, states=True)
    to_slots, _ = work(slot)
    assert [type(message) for _, message in to_slots] == [Blocks, Blocks, Finished]
    assert [message.ended for _, message in to_slots] == [{}, {}, {0: "t", 1: "t"}]


def test_the_lowest_window_runs_first_and_stages_in_their_order():
    slot, containers = slot_of((1, 1), (0, 0))
    for window_id in range(3):
        begin(slot, window_id, states=window_id == 0)
    work(slot)
    assert containers.ran == [(c, w, 0) for w in range(3) for c in range(2)]


def test_blocks_may_come_before_the_window_is_begun_and_late_ones_leave_nothing():
    slot, containers = slot_of((1, 1), (1, 0))
    message = Message(0, [Block(1, "in", 0, pa.py_buffer(b"x"))])
    slot.from_slot(Blocks(0, 1, 1, message))
    slot.from_slot(Finished(0, 1, {0: "t"}))
    slot.from_slot(Blocks(0, 0, 1, message))
    slot.from_slot(Finished(0, 0, {0: "t"}))
    begin(slot, 0, 1, states=True)
    work(slot)
    assert containers.ran == [(1, 0, 1)]
    assert containers.got[1] == [message]
    slot.from_slot(Blocks(0, 0, 1, message))
    slot.from_slot(Blocks(0, 1, 1, message))
    slot.from_stram(Committed(0))
    slot.from_slot(Blocks(0, 2, 1, message))
    begin(slot, 1)
    slot.from_slot(Finished(1, 0, {0: "t"}))
    work(slot)
    assert containers.ran[1:] == [(1, 1, 0)]
    assert containers.got[1] == []


def test_a_failure_stops_later_windows_but_not_earlier_ones():
    slot, containers = slot_of((2, 1), (0, 0, 1))
    begin(slot, 5, states=True)
    begin(slot, 6)
    begin(slot, 7)
    slot.step()
    slot.step()
    slot.step()
    containers.fail = {1}
    _, to_stram = work(slot)
    (failed,) = [one for one in to_stram if isinstance(one, Failed)]
    assert (failed.container, failed.window_id, failed.attempt) == (1, 6, 0)
    assert containers.ran == [(0, 5, 0), (1, 5, 0), (0, 6, 0)]
    containers.fail = set()
    begin(slot, 6, 1, states=True)
    begin(slot, 7, 1)
    work(slot)
    assert containers.ran[3:] == [(0, 6, 1), (1, 6, 1), (0, 7, 1), (1, 7, 1)]


def test_nothing_goes_on_without_states_in_a_new_slot():
    slot, containers = slot_of((1,), (0,))
    begin(slot, 4)
    assert not slot.ready
    begin(slot, 4, 1, states=True)
    work(slot)
    assert containers.ran == [(0, 4, 1)]


def test_a_report_that_cannot_be_pickled_is_a_failure_of_its_container():
    slot, containers = slot_of((1,), (0,))
    containers.report = (number for number in range(3))
    containers.specs[0] = replace(containers.specs[0], operators=(SimpleNamespace(title="x"),))
    begin(slot, 0, states=True)
    _, (failed,) = work(slot)
    assert isinstance(failed, Failed)
    assert "cannot pickle" in failed.failure.error


def test_a_plan_that_cannot_be_read_is_a_failure_of_the_slot():
    slot, containers = slot_of((1,), (0,))
    begin(slot, 0, states=True)
    slot.from_stram(Host("m", ShippedPlan("p"), "run", (7,), {7: 0}, {Peer(0): "x"}))
    begin(slot, 0, 1, states=True)
    _, (failed,) = work(slot)
    assert (failed.container, failed.failure.callback) == (-1, "making its containers")
    assert containers.ran == []


def test_the_end_tears_down_and_says_what_failed_in_it():
    slot, containers = slot_of((1,), (0,))
    begin(slot, 0, states=True)
    slot.from_stram(End())
    _, (ended,) = slot.take()
    assert (slot.over, slot.ready, containers.closed) == (True, False, True)
    assert isinstance(ended, Ended)
    assert [failure.callback for failure in ended.failures] == ["teardown"]


# The loop over a network ------------------------------------------------------------------------------------


OTHERS = (Peer(0),)


class Looped:
    """A slot in its loop, STRAM's end of the network, and those of other slots."""

    def __init__(self, number=1, stages=(1, 1), others=OTHERS):
        self.board = Switchboard()
        self.stram = self.board.join(Peer(STRAM))
        self.others = [self.board.join(peer) for peer in others]
        self.network = self.board.join(Peer(number))
        self.containers = Recording(specs_of(stages, ALL))
        self.loop = SlotLoop(Slot(number, self.containers, SteppingClock()), self.network, self.stram.me)
        self.me = Peer(number)
        self.network.connect(self.stram.me, self.stram.address)

    def deliver(self):
        while coming := self.board.on_their_way():
            self.board.deliver(*coming[0])

    def settle(self, times=1):
        """All that is on its way arrives, and the slot has its turn."""
        for _ in range(times):
            self.deliver()
            self.loop.turn(0.0)

    def tell(self, *messages):
        for message in messages:
            self.stram.send(self.me, *encode(message))


def hosting(containers, slots, peers=None):
    peers = peers or {Peer(number): f"board:{number}" for number in slots.values()}
    return Host("m", ShippedPlan("p"), "run", containers, slots, peers)


def running(window_id=0, attempt=0, states=True):
    return RunAttempt(WindowRequest(window_id, attempt, 0, states={} if states else None))


@pytest.fixture
def looped():
    """Slot 1, which hosts the first of two containers; the second one is in slot 0."""
    made = Looped()
    made.network.send(made.stram.me, *encode(Joined("h", 1, made.network.address)))
    made.settle()
    made.tell(hosting((0,), {0: 1, 1: 0}))
    made.settle(2)
    return made


def messages_of(network):
    return [decode(event) for event in network.poll(0.0) if isinstance(event, Received)]


def kinds_of(events):
    return [type(one) for one in events]


def test_a_lost_line_to_another_slot_is_reported_and_made_again_with_states(looped):
    [other] = looped.others
    assert other.poll(0.0) == [Opened(Peer(1))], "a slot calls those of lower numbers"
    looped.board.cut(looped.board.lines[frozenset((Peer(0), Peer(1)))], {})
    looped.settle(2)
    assert kinds_of(messages_of(looped.stram)) == [Joined, Unreachable]
    looped.tell(running())
    looped.settle(3)
    assert kinds_of(messages_of(other)) == [Blocks]


def test_no_container_runs_before_its_partners_are_connected_and_a_busy_one_is_called_again():
    one = Looped()
    for message in (hosting((0,), {0: 1, 1: 0}), RunAttempt(WindowRequest(0, 0, 0))):
        one.network.events.append(Received(one.stram.me, *framed(message)))
    for _ in range(3):
        lines = one.board.lines
        line = next(line for line in [*lines.values(), None] if line is None or Peer(0) in line.ends)
        if line is not None:
            del lines[frozenset(line.ends)]
            one.network.events.append(Lost(Peer(0), LATE))
        one.loop.turn(0.0)
        assert one.containers.ran == []
    one.settle(2)
    one.deliver()
    assert one.containers.ran == [(0, 0, 0)]
    assert kinds_of(messages_of(one.others[0])) == [Blocks]
    assert Unreachable not in kinds_of(messages_of(one.stram))


def test_a_slot_that_stood_still_keeps_its_line_to_one_newer_than_the_host_that_it_reads_late():
    """The other one has heard of both already. To hang up on it would fail the attempt."""
    one = Looped(0, others=(Peer(1, 0), Peer(1, 1)))
    older, newer = one.others
    for other in (older, newer):
        other.connect(Peer(0), one.network.address)

    def host(attempt):
        return hosting((1,), {0: 1, 1: 0}, {Peer(0): one.network.address, Peer(1, attempt): older.address})

    one.settle()
    newer.send(Peer(0), *encode(Blocks(0, 1, 1, Message(0, []), {0: "t"})))
    one.tell(host(0))
    one.settle()
    assert kinds_of(newer.poll(0.0)) == [Opened]
    one.tell(host(1), running(0, 1))
    one.settle(2)
    assert one.containers.ran == [(1, 0, 1)]
    assert newer.poll(0.0) == []
    assert kinds_of(older.poll(0.0)) == [Opened, Lost]
    assert Unreachable not in kinds_of(messages_of(one.stram))


def test_a_slot_keeps_its_lines_to_those_who_are_no_partners_yet_or_not_any_more():
    """Each `Host` names partners only. Who reads it later would take the end of the line for a loss."""
    one = Looped(0, (1, 2), (Peer(1), Peer(2)))
    for other in one.others:
        other.connect(Peer(0), one.network.address)
    one.settle()
    for slots in ({1: 1, 2: 1}, {1: 2, 2: 2}):
        one.tell(hosting((0,), slots))
        one.settle(2)
    assert [kinds_of(other.poll(0.0)) for other in one.others] == [[Opened], [Opened]]
    assert messages_of(one.stram) == []


def test_one_who_is_no_partner_any_more_and_stands_still_holds_nobody_up(looped):
    looped.network.queued[Peer(0)] = QUEUE_BYTES + 1
    looped.tell(running())
    looped.settle(4)
    assert looped.others[0].poll(0.0)
    looped.tell(hosting((0, 1), {0: 1, 1: 1}), running(1))
    looped.settle(4)
    assert looped.containers.ran == [(0, 0, 0), (0, 1, 0), (1, 1, 0)]


def test_an_attempt_that_is_encoded_for_many_slots_has_the_states_of_each():
    request = WindowRequest(7, 2, 3, final=True, finished=frozenset({4}), states={9: ("not", "sent")}, time=5)
    run = RunAttempt(request, fed={1: (0,)}, committed=6)
    encoded = encode_for_each(run)
    for states in ({}, {1: ("a", "b")}, dict.fromkeys(range(100), ("x" * 50,))):
        kind, head, buffers = encoded(states)
        frame = Received(Peer(STRAM), kind, memoryview(head), [memoryview(one) for one in buffers])
        assert decode(frame) == replace(run, request=replace(request, states=states))


def framed(message):
    kind, head, buffers = encode(message)
    return kind, memoryview(head), [memoryview(buffer) for buffer in buffers]


def test_a_full_line_holds_the_slot_back_and_nothing_is_lost(looped):
    [other] = looped.others
    looped.tell(running())
    looped.network.queued[Peer(0)] = QUEUE_BYTES + 1
    looped.settle()
    looped.tell(running(1, states=False))
    looped.settle(3)
    assert [one.window_id for one in messages_of(other)] == [0]
    looped.network.queued[Peer(0)] = 0
    looped.settle(3)
    assert [one.window_id for one in messages_of(other)] == [1]


NO_MESSAGES = [(99, b""), (9, b"nonsense"), (-1, b""), (9, b"\x80\x05K\x01.")]
ONLY_STRAMS = [End(), Committed(3), Reported(b"")]


@pytest.mark.parametrize(
    ("frame", "detail"),
    [*((frame, "") for frame in NO_MESSAGES), *((encode(one), type(one).__name__) for one in ONLY_STRAMS)],
)
def test_a_slot_that_sends_what_is_no_message_or_only_strams_is_hung_up_on(looped, frame, detail):
    looped.others[0].send(Peer(1), *frame)
    looped.settle(2)
    unreachable = messages_of(looped.stram)[-1]
    assert isinstance(unreachable, Unreachable)
    assert detail in unreachable.detail
    looped.loop.turn(0.0)


def test_a_slot_whose_stram_is_gone_tears_down(looped):
    looped.board.kill(Peer(STRAM), 0)
    looped.settle()
    looped.loop.serve()
    assert looped.loop._slot.over


@pytest.fixture
def waiting():
    """A slot with one container, whose input waits for its tuples and has none."""
    slot, containers = slot_of((1,), (0,))
    input_of_it = SimpleNamespace(operator=Fed(), id=0)
    containers._all = {0: replace(containers._all[0], operators=(input_of_it,))}
    slot.from_stram(Host("m", ShippedPlan("p"), "run", (0,), {0: 0}, {Peer(0): "x"}))
    begin(slot, 0, states=True)
    containers.report = OperatorReport.begun(WindowRequest(0, 0, 0), 0)
    containers.report.idle = True
    return slot, containers


def test_stram_hears_of_an_input_that_is_awake_after_the_report_that_says_the_contrary(waiting):
    slot, _ = waiting
    slot.awake()
    assert slot.take()[1] == []  # STRAM does not believe that it has nothing
    slot.step()
    slot.awake()
    first, second = slot.take()[1]
    assert windows_of([first]) == [(0, 0)]
    assert second == Awake()
    slot.awake()
    assert slot.take()[1] == []


def test_the_width_of_a_window_is_over_after_it_was_begun(waiting):
    slot, containers = waiting
    seen = []
    run = containers.run
    containers.run = lambda container, request, *more: (
        seen.append(request.ends) or run(container, request, *more)
    )
    begin(slot, 1)
    slot._clock.advance(5.0)
    work(slot)
    assert seen == [1.0, 1.0]


def test_work_that_is_too_short_to_delay_anything_is_no_stretch_of_work():
    clock = SteppingClock()
    clock.advance(5.0)
    busy = BusyTimes(clock)
    clock.advance(0.0001)
    busy.rest()
    clock.advance(1.0)
    busy.resume()
    assert busy.arrival()[1] == ()
    clock.advance(0.0001)
    assert busy.arrival()[1] == ()
    clock.advance(0.5)
    assert busy.arrival()[1] == pytest.approx((0.5001, 0.0))


SLOTS = {number: number for number in range(40)}
PEERS = {Peer(number): f"tcp:h:{number}" for number in range(40)}


def received(frame):
    kind, head, buffers = frame
    return Received(Peer(STRAM), kind, memoryview(head), [memoryview(one) for one in buffers])


def hosts():
    """Of slots with the same partners, of one with another, and of one that shares nothing."""
    code = ShippedCode(7, (), None, 3)
    partners = SharedMapping(SLOTS), SharedMapping(PEERS)
    first = Host("m", ShippedPlan("p0", b"specs", code), "run", (0,), *partners, 1.5)
    second = replace(first, plan=ShippedPlan("p1", b"others", code), containers=(1, 2))
    other = Host("m", ShippedPlan("p2", b"", code), "run", (3,), {4: 4}, {Peer(4): "x"}, 1.5)
    last = Host("m", ShippedPlan("p3", b"", ShippedCode(8, epoch=4)), "run", (), {}, {})
    return [first, second, other, replace(first, containers=(5,)), last]


def test_hosts_are_read_as_they_were_however_many_share_partners():
    for host in hosts():
        assert decode(received(encode(host))) == host


def test_every_field_of_a_host_and_its_plan_is_sent():
    code = ShippedCode(7, ("package",), "files", 3)
    plan = ShippedPlan("p0", b"specs", code)
    host = Host("m", plan, "run", (0,), SLOTS, PEERS, 1.5)
    for one in (host, plan, code):
        assert all(getattr(one, field.name) != field.default for field in fields(one)), "give it a value here"
    assert decode(received(encode(host))) == host


def test_what_slots_share_is_written_once():
    frames = [encode(host) for host in hosts()]
    parts = [[memoryview(buffer).obj for buffer in buffers] for _, _, buffers in frames]
    for alike in (parts[1], parts[3]):
        assert [one is two for one, two in zip(parts[0], alike, strict=True)] == [True] * 2
    assert parts[2] == parts[4] == []
    own = [len(head) for _, head, _ in frames]
    assert max(own) < 400 < len(parts[0][1])


@pytest.mark.parametrize("damage", ["no buffers", "one buffer", "other head"])
def test_a_host_that_is_damaged_is_no_message(damage):
    kind, head, buffers = encode(hosts()[0])
    if damage == "other head":
        head = head[:-3]
    else:
        buffers = buffers[: 1 if damage == "one buffer" else 0]
    with pytest.raises(MalformedError, match="cannot be read"):
        decode(received((kind, head, buffers)))
