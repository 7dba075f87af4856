"""The lines of operators on the driver: bounded, however much is said."""

import random

from ridgeline.engine.driver.operator_log import MOST_CHARACTERS, MOST_LINES, OperatorLog
from ridgeline.engine.process.said_lines import SaidLine


def said(log, *texts, name="parse", left_out=0, at=1.0):
    """Lines of an operator come from a worker."""
    lines = [SaidLine(at + number, 3, "stdout", "", "", text) for number, text in enumerate(texts)]
    log.add(name, 0, lines, "h", 7, left_out)


def every(_line):
    return True


def test_the_last_lines_are_kept_and_counted():
    log = OperatorLog()
    for number in range(MOST_LINES):
        said(log, f"{number}a", f"{number}b", left_out=10)
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
        said(log, str(number), name=luck.choice("abc"), at=float(number))
        if luck.random() < 0.05:
            lines, last, _ = log.lines(every, last, 20)
            seen += [int(line.text) for line in lines]
            missed += sum(line.left_out for line in lines)
    lines, last, _ = log.lines(every, last, 20)
    assert last == 1000
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)
    assert len(seen) + missed + len(lines) + sum(line.left_out for line in lines) == 1000


def test_memory_is_bounded_however_much_is_said():
    log = OperatorLog()
    for number in range(400):
        for _ in range(25):
            said(log, *["x" * 1200] * 20, name=f"operator-{number}")
    lines, _, _ = log.lines(every, 0, 1_000_000)
    assert sum(len(line.text) for line in lines) <= MOST_CHARACTERS
    assert len({line.operator for line in lines}) == 400
