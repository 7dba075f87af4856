"""What `plan` says of order and of state in several partitions."""

from typing import Any

import pytest

from ridgeline.api import (
    Application,
    InputPort,
    KeyedState,
    ListState,
    Operator,
    OutputPort,
    Partition,
    Partitioner,
    RoundRobinPartitioner,
    State,
)
from ridgeline.api.operator import operator_type
from ridgeline.plan import find_notes, plan_application
from support.plan.parts import (
    Balance,
    Balances,
    Check,
    Filter,
    Follow,
    MergeBalances,
    Payment,
    Source,
    Store,
    TopBalances,
)
from support.rows import in_a_row


class Broadcast(Partitioner):
    def define_partitions(self, count: int, ports: Any) -> list[Partition]:
        return [Partition()] * count


class Counting(Operator):
    payments = InputPort(Payment, key="account")
    out = OutputPort(Balance)

    count = State(0)
    recent: ListState[int] = ListState()
    totals = KeyedState(int)

    @payments.process
    def go(self, payment: Payment) -> None: ...


class Merging(Counting):
    out = OutputPort(Balance, unifier=MergeBalances)


class Following(Counting):
    payments = InputPort(Payment, key="account", parallel=True)

    @payments.process
    def follow(self, payment: Payment) -> None: ...


def notes(*operators: Any, upstream: int = 1, **attributes: Any) -> list[str]:
    """Of operators in a row. Attributes are those of the last one; the others have two partitions."""
    names = [type(operator).__name__.lower() for operator in operators]
    row = {name: (operator, {"partitions": 2}) for name, operator in zip(names, operators, strict=True)}
    row[names[-1]] = operators[-1], attributes
    end = {"store": Store()} if operator_type(type(operators[-1])).outputs else {}
    source = (Source(), {"partitions": upstream})
    plan = plan_application(in_a_row(Application("test"), source=source, **row, **end))
    return [str(note) for note in find_notes(plan.logical, plan.physical)]


READ = "`source`: 2 partitions read side by side: the order of a key's tuples is kept if all of them come"
IN_TURN = {"partitions": 3, "partitioner": RoundRobinPartitioner()}


@pytest.mark.parametrize(
    ("operators", "given", "expected"),
    [
        ([Check()], {}, []),
        ([Balances()], {}, []),
        ([Counting()], {}, []),
        ([Balances(), TopBalances()], {"partitions": 3}, []),
        (
            [Check()],
            {"partitions": 3},
            ["`check`: port `payments` is divided round robin among 3 partitions"],
        ),
        ([Balances()], IN_TURN, ["`balances`: port `payments` is divided round robin among 3 partitions"]),
        ([Follow()], {"upstream": 2}, [READ]),
        (
            [Following()],
            {"upstream": 2},
            [
                READ,
                "`following`: state `totals` is right if all tuples of a key come from one",
                "`following`: each partition keeps state `count`, `recent` for itself, and no unifier merges",
            ],
        ),
        (
            [Filter()],
            {"partitions": 2, "partitioner": Broadcast()},
            ["`filter`: each of 2 partitions gets all tuples"],
        ),
        ([Counting()], {"partitions": 2}, ["`counting`: each partition keeps state `count`, `recent` for"]),
        ([Merging()], {"partitions": 2}, []),
        (
            [Counting()],
            IN_TURN,
            [
                "`counting`: port `payments` is divided round robin among 3 partitions",
                "`counting`: each partition keeps state `totals`, `count`, `recent` for itself",
            ],
        ),
    ],
)
def test_what_is_said_of_a_row_of_operators(
    operators: list[Any], given: dict[str, Any], expected: list[str]
) -> None:
    found = notes(*operators, **given)
    assert len(found) == len(expected)
    assert all(map(str.startswith, found, expected))
