"""What operators print in a worker is marked with the operator and its partition."""

import io
import threading

import pytest

from ridgeline.engine.process import worker_output
from ridgeline.engine.process.worker_output import MarkedStream, enter_operator, leave_operator
from support.engine.current_operators import BALANCES, CITIES


@pytest.fixture
def stream(monkeypatch):
    """A marked stream as `mark_output` makes them; `stream.getvalue()` is what was written."""
    stream = MarkedStream(io.StringIO())
    monkeypatch.setattr(worker_output, "_marked", [stream])
    yield stream
    leave_operator()


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
