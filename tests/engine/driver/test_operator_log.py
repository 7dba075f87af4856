"""The lines of operators on the driver: bounded, and hostile messages are refused."""

import json
import random

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.operator_log import MOST_CHARACTERS, MOST_LINES, OperatorLog


def message(*texts, name="parse", partition=0, left_out=0, at=1.0, **other):
    lines = [[at + number, 3, "stdout", "", "", text] for number, text in enumerate(texts)]
    return json.dumps({"host": "h", "pid": 7, "said": [[name, partition, left_out, lines]], **other}).encode()


def every(_line):
    return True


def test_the_last_lines_are_kept_and_counted():
    log = OperatorLog()
    for number in range(MOST_LINES):
        assert log.take(message(f"{number}a", f"{number}b", left_out=10))
    lines, last, left_out = log.lines(every, 0, 10_000)
    assert len(lines) == MOST_LINES
    assert (lines[-1].text, lines[-1].window, lines[-1].host, lines[-1].pid) == (
        f"{MOST_LINES - 1}b",
        3,
        "h",
        7,
    )
    assert (last, left_out) == (2 * MOST_LINES, 10 * MOST_LINES)
    assert [line.left_out for line in lines if line.text.endswith("a")] == [10] * (MOST_LINES // 2)


def test_who_follows_gets_each_line_once_or_its_number():
    log = OperatorLog()
    seen, last, missed = [], 0, 0
    luck = random.Random(3)
    for number in range(1000):
        log.take(message(str(number), name=luck.choice("abc"), at=float(number)))
        if luck.random() < 0.05:
            lines, last, _ = log.lines(every, last, 20)
            seen += [int(line.text) for line in lines]
            missed += sum(line.left_out for line in lines)
    lines, last, _ = log.lines(every, last, 20)
    assert last == 1000
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)
    assert len(seen) + missed + len(lines) + sum(line.left_out for line in lines) == 1000


def test_memory_is_bounded_whatever_workers_send():
    log = OperatorLog()
    for number in range(400):
        for _ in range(25):
            log.take(message(*["x" * 1200] * 20, name=f"operator-{number}"))
    lines, _, _ = log.lines(every, 0, 1_000_000)
    assert sum(len(line.text) for line in lines) <= MOST_CHARACTERS
    assert len({line.operator for line in lines}) == 400


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b"{}",
        json.dumps({"host": 1, "pid": 2, "said": []}).encode(),
        message("a", said=3),
        message("a", said=[["a", 0, 0, [[1, 2, 3]]]]),
        message("a", said=[["a", "0", 0, []]]),
        message("a", said=[["a", 0, True, []]]),
        message("a", at=float("nan")),
        message(3),
    ],
)
def test_what_no_worker_sends_is_refused(data):
    heartbeats = Heartbeats(lambda _event: None, SystemClock())
    heartbeats.take_said(0, data)
    assert heartbeats.refused["malformed"] == 1
    assert heartbeats.log.lines(every, 0, 10)[0] == []
    heartbeats.take_said(0, b" " * (2 << 20))
    assert heartbeats.refused["too large"] == 1
