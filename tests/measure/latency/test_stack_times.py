"""The fold of stacks: shares, the last minute, and messages that are made to harm."""

from __future__ import annotations

import pytest

from ridgeline.measure.events import StackTimes
from ridgeline.measure.latency.stack_times import DEEPEST, MOST_FUNCTIONS, MOST_IN_ALL, StackFold
from ridgeline.measure.topology import OperatorNode, Topology


def node(number: int, name: str) -> OperatorNode:
    return OperatorNode(number, name, f"{name}[{number}]", "C", number, 2, False, "operator", False, 0, 0)


TOPOLOGY = Topology((node(0, "parse"), node(1, "parse"), node(2, "book")), ())
FUNCTIONS = (
    (0, 1, "take", "user"),
    (0, 5, "<img src=x onerror=alert(1)>", "user"),
    (0, 9, "rest", "package"),
)


def stacks(*nodes: tuple[int, int, float]) -> StackTimes:
    return StackTimes(("f.py",), FUNCTIONS, nodes)


def test_partitions_are_added_and_old_messages_left_out() -> None:
    fold = StackFold()
    for second in range(200):
        message = stacks((-1, second % 4, 0.1), (0, 0, 0.2), (1, 1, 0.7), (1, 2, 0.3))
        fold.add(float(second), message, TOPOLOGY)  # operator 3 is in no plan
    answer = fold.answer(199.0, {"parse": 0.5})
    assert [one["operator"] for one in answer["operators"]] == ["parse", "book"]
    parse = answer["operators"][0]
    found = [(row["caller"], row["function"], row["share"]) for row in parse["functions"]]
    assert found == [
        (-1, "take", pytest.approx(1.2 / 1.3)),
        (0, "<img src=x onerror=alert(1)>", pytest.approx(0.7 / 1.3)),
        (0, "rest", pytest.approx(0.3 / 1.3)),
    ]
    assert parse["seconds"] == pytest.approx(1.3 * 30, abs=1.4)
    assert parse["functions"][0]["ownSeconds"] == pytest.approx(0.2 / 1.3 * parse["seconds"])
    assert [one["operator"] for one in fold.answer(199.0, {}, "book")["operators"]] == ["book"]


def test_a_message_that_is_made_to_harm_is_bounded_and_leads_nowhere() -> None:
    fold = StackFold()
    loops = stacks(
        (-1, 0, 0.0), (1, 0, 5.0), (9, 0, 5.0), (0, 77, 5.0), (0, 0, -5.0), (0, -3, 5.0), (0, 1, 1.0)
    )
    fold.add(1.0, loops, TOPOLOGY)
    (parse,) = fold.answer(1.0, {})["operators"]
    assert parse["seconds"] == pytest.approx(1.0)
    deep = stacks((-1, 2, 0.0), *((place, place % 2, 0.01) for place in range(900)))
    fold.add(1.1, deep, TOPOLOGY)
    book = fold.answer(1.1, {}, "book")["operators"][0]
    assert len(book["functions"]) == DEEPEST
    assert book["seconds"] == pytest.approx(9.0)
    for message in range(40):
        functions = tuple((0, line, f"f{message}.{line}", "user") for line in range(900))
        wide = StackTimes(("f.py",), functions, ((-1, 0, 0.0), *((0, one, 0.01) for one in range(900))))
        fold.add(2.0 + message / 2, wide, TOPOLOGY)
    (parse,) = fold.answer(22.0, {}, "parse")["operators"]
    assert len(parse["functions"]) <= MOST_FUNCTIONS
    assert parse["seconds"] == pytest.approx(361.0)  # what has no room counts for its caller
    rows = sum(len(one["functions"]) for one in fold.answer(22.0, {})["operators"])
    assert rows <= MOST_IN_ALL
