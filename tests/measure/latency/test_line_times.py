"""The fold of time by line: what it keeps, and what its shares add up to."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ridgeline.measure.events import LineTime
from ridgeline.measure.latency.line_times import LineTimes
from ridgeline.measure.topology import OperatorNode, Topology


def node(number: int, name: str) -> OperatorNode:
    return OperatorNode(number, name, f"{name}[{number}]", "C", number, 2, False, "operator", False, 0, 0)


TOPOLOGY = Topology((node(0, "parse"), node(1, "parse"), node(2, "book")), ())


def test_partitions_are_added_and_old_messages_left_out() -> None:
    random.seed(7)
    times, wanted = LineTimes(), Counter()
    for second in range(200):
        operator, line = random.randrange(4), random.randrange(3)
        times.add(float(second), [LineTime(operator, "f.py", line, "f", "text", 0.5)], TOPOLOGY)
        if second >= 139 and operator < 3:  # 3 is in no plan
            wanted["book" if operator == 2 else "parse", line] += 0.5
    answer = times.answer(199.0, {"parse": 0.8})
    found = {
        (one["operator"], row["line"]): row["seconds"] for one in answer["operators"] for row in one["lines"]
    }
    assert found == pytest.approx(dict(wanted))
    for one in answer["operators"]:
        assert sum(row["share"] for row in one["lines"]) == pytest.approx(1)
        of_path = 0.8 if one["operator"] == "parse" else 0.0
        assert sum(row["ofPath"] for row in one["lines"]) == pytest.approx(of_path)
    assert [one["operator"] for one in times.answer(199.0, {}, "book")["operators"]] == ["book"]
