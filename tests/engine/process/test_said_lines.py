"""What operators print in a worker: marked where it is printed, and the last lines kept for the driver."""

import gc
import io
import logging
import pickle
import random
import threading

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.engine.process import worker_output
from ridgeline.engine.process.log_channel import open_worker_channel
from ridgeline.engine.process.said_lines import LONGEST, MOST_LINES, ProcessLines, said
from ridgeline.engine.process.worker_output import MarkedStream, enter_operator, leave_operator
from support.engine.current_operators import BALANCES, CITIES


@pytest.fixture
def stream(monkeypatch):
    """A marked stream as `mark_output` makes them, in a process that sends what is said."""
    stream = MarkedStream(io.StringIO(), "stdout")
    monkeypatch.setattr(worker_output, "_marked", [stream])
    monkeypatch.setattr(said, "is_open", True)
    yield stream
    leave_operator()
    said.take(1)


def taken(most=1 << 20):
    """By operator: how many were left out, and the texts."""
    found = said.take(most)
    return {operator[0]: (left_out, [line.text for line in lines]) for operator, left_out, lines in found}


def test_lines_are_those_of_their_operator(stream):
    print("of no operator", file=stream)
    enter_operator(BALANCES)
    print("one", 2, file=stream)
    print("three\n\nfour\r\n", file=stream)
    print("no end", end="", file=stream)
    enter_operator(CITIES)
    print("five", file=stream)
    print("not at its end", end="", file=stream)
    leave_operator()
    assert taken() == {
        "": (0, ["of no operator"]),
        "balances": (0, ["one 2", "three", "four", "no end"]),
        "cities": (0, ["five", "not at its end"]),
    }
    assert taken() == {}


def test_a_flood_keeps_the_last_lines_and_counts_the_others(stream):
    enter_operator(BALANCES)
    for number in range(20_000):
        print(number, file=stream)
    print("\n".join(str(number) for number in range(20_000, 50_000)), file=stream)
    left_out, lines = taken()["balances"]
    assert lines == [str(number) for number in range(50_000 - MOST_LINES, 50_000)]
    assert left_out == 50_000 - MOST_LINES


def test_operators_share_the_room_of_a_message(stream):
    for operator in (BALANCES, CITIES):
        enter_operator(operator)
        for number in range(10):
            print(f"{number}" * 100, file=stream)
    found = taken(most=700)
    assert found == {
        "balances": (7, [f"{n}" * 100 for n in (7, 8, 9)]),
        "cities": (7, [f"{n}" * 100 for n in (7, 8, 9)]),
    }


def test_long_lines_are_cut_and_a_bar_of_progress_is_its_last_state(stream):
    enter_operator(BALANCES)
    print("x" * 10_000_000, file=stream)
    for percent in range(100):
        print(f"\r{percent}% " + "=" * percent, end="", file=stream)
    print(file=stream)
    lines = taken()["balances"][1]
    assert lines == ["x" * LONGEST, "99% " + "=" * 99]


def test_records_have_levels_and_are_kept_once(stream, monkeypatch):
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    for _ in range(2):
        open_worker_channel({})
    enter_operator(BALANCES)
    logging.getLogger("of.a.user").warning("no %s", "room")
    logging.getLogger("of.a.user").info("not enabled")
    ((_, _, [line]),) = said.take(1 << 20)
    assert (line.source, line.level, line.logger, line.text) == ("log", "WARNING", "of.a.user", "no room")
    assert stream.stream.getvalue() == "[balances:1] no room\n"


def test_what_is_printed_while_a_line_is_kept_does_no_harm(stream):
    class Prints:
        def __init__(self):
            self.itself = self

        def __del__(self):
            print("collected", file=stream)

    gc.set_threshold(1, 1, 1)
    try:
        enter_operator(BALANCES)
        for number in range(300):
            Prints()
            print(number, file=stream)
    finally:
        gc.set_threshold(10_000)
    assert taken()["balances"][1][-1] in {"299", "collected"}


def test_threads_do_not_mix_their_lines(stream):
    def say(name):
        for _ in range(200):
            for part in (name, name, "\n"):
                stream.write(part)

    threads = [threading.Thread(target=say, args=(name,)) for name in "abc"]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(taken()[""][1]) <= {"aa", "bb", "cc"}


def test_the_driver_reads_whatever_is_said(stream):
    luck = random.Random(7)
    log = OperatorLog()
    heartbeats = Heartbeats(lambda _event: None, SystemClock(), log)
    for _ in range(300):
        enter_operator(luck.choice([BALANCES, CITIES]))
        characters = [
            luck.choice('a\n\r\t\0\x1b\u2028\u202e\ud800\U0001f600"\\<') for _ in range(luck.randrange(60))
        ]
        worker_output.keep("stdout", "".join(characters))
        if luck.random() < 0.1:
            heartbeats.take(0, pickle.loads(pickle.dumps(ProcessLines("h", 1, said.take(32 * 1024)))))
    heartbeats.take(0, ProcessLines("h", 1, said.take(32 * 1024)))
    lines, _, _ = log.lines(lambda line: line.operator == "balances", 0, 1000)
    assert lines


def test_nothing_is_kept_where_nobody_sends_it(stream, monkeypatch):
    monkeypatch.setattr(said, "is_open", False)
    enter_operator(BALANCES)
    print("a", file=stream)
    assert not said.waits


def test_each_line_is_marked(stream):
    print("before", file=stream)
    enter_operator(BALANCES)
    print("one", 2, file=stream)
    print("three\nfour\n", file=stream)
    enter_operator(CITIES)
    print("five", file=stream)
    leave_operator()
    print("after", file=stream)
    assert stream.getvalue() == (
        "before\n[balances:1] one 2\n[balances:1] three\n[balances:1] four\n[balances:1] \n"
        "[cities:0] five\nafter\n"
    )


def test_a_line_is_written_whole(stream):
    enter_operator(BALANCES)
    print("a", end="", file=stream)
    print("b", end="", file=stream)
    assert not stream.getvalue()
    print("c", file=stream)
    assert stream.getvalue() == "[balances:1] abc\n"


def test_flush_writes_what_there_is_of_a_line(stream):
    enter_operator(BALANCES)
    print("loading", end=" ... ", flush=True, file=stream)
    assert stream.getvalue() == "[balances:1] loading ... "
    print("done\nnext", file=stream)
    assert stream.getvalue() == "[balances:1] loading ... done\n[balances:1] next\n"


def test_an_unfinished_line_is_not_lost_and_not_continued_by_another(stream):
    enter_operator(BALANCES)
    print("no end", end="", file=stream)
    enter_operator(CITIES)
    print("other", file=stream)
    print("last", end="", file=stream)
    leave_operator()
    assert stream.getvalue() == "[balances:1] no end\n[cities:0] other\n[cities:0] last"


def test_a_line_without_end_is_not_held_back_for_ever(stream):
    enter_operator(BALANCES)
    for _ in range(10_000):
        print("x", end="", file=stream)
    assert stream.getvalue().startswith("[balances:1] xxx")
    leave_operator()
    assert stream.getvalue() == "[balances:1] " + 10_000 * "x"


def test_other_threads_are_not_marked(stream):
    enter_operator(BALANCES)
    thread = threading.Thread(target=stream.write, args=("by itself\n",))
    thread.start()
    thread.join()
    assert stream.getvalue() == "by itself\n"
