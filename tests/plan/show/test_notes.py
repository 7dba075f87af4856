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
    StickyPartitioner,
)
from ridgeline.plan import find_notes, plan_application
from support.plan.faulty import are
from support.plan.parts import (
    Balance,
    Balances,
    Check,
    Filter,
    Follow,
    Join,
    MergeBalances,
    Payment,
    Source,
    Store,
    TopBalances,
)
from support.rows import in_a_row

ROUND_ROBIN = (
    "is divided round robin among 3 partitions: the order of a key's tuples is not kept from here on"
)


def notes(*operators: Any, **attributes: Any) -> list[str]:
    """Of operators in a row behind a source; attributes are of the last."""
    app = Application("test")
    stream: Any = app.add_operator("source", Source(), partitions=attributes.pop("upstream", 1)).payments
    for number, (operator, port, out) in enumerate(operators):
        last = number == len(operators) - 1
        app.add_operator(
            type(operator).__name__.lower(), operator, **(attributes if last else {"partitions": 2})
        )
        app.add_stream(f"stream{number}", stream, getattr(operator, port))
        stream = getattr(operator, out) if out else None
    if stream is not None:
        app.add_stream("out", stream, app.add_operator("store", Store()).input)
    plan = plan_application(app)
    return [str(note) for note in find_notes(plan.logical, plan.physical)]


class Broadcast(Partitioner):
    def define_partitions(self, count: int, ports: Any) -> list[Partition]:
        return [Partition()] * count


class ByCents(Operator):
    balances = InputPort(Balance, key="cents")

    @balances.process
    def go(self, balance: Balance) -> None: ...


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


@pytest.mark.parametrize(
    "operator",
    [(Check(), "payments", "valid"), (Balances(), "payments", "balances"), (Counting(), "payments", "out")],
)
def test_one_partition_needs_no_note(operator: Any) -> None:
    assert notes(operator) == []


def test_sticky_partitions_need_no_note() -> None:
    assert notes((Balances(), "payments", "balances"), (TopBalances(), "balances", "top"), partitions=3) == []


def test_round_robin() -> None:
    assert notes((Check(), "payments", "valid"), partitions=3) == [f"`check`: port `payments` {ROUND_ROBIN}"]
    sticky = notes((Balances(), "payments", "balances"), partitions=3, partitioner=RoundRobinPartitioner())
    assert sticky == [f"`balances`: port `payments` {ROUND_ROBIN}"]


def test_inputs_side_by_side_and_what_follows_them() -> None:
    read = (
        "`source`: 2 partitions read side by side: "
        "the order of a key's tuples is kept if all of them come from one partition"
    )
    assert notes((Follow(), "payments", "valid"), upstream=2) == [read]
    states = (
        "state `totals` is right if all tuples of a key come from one partition of `source`, which it follows"
    )
    alone = (
        "each partition keeps state `count`, `recent` for itself, "
        "and no unifier merges what they emit on `out`"
    )
    assert notes((Following(), "payments", "out"), upstream=2) == [
        read,
        f"`following`: {states}",
        f"`following`: {alone}",
    ]


def test_all_partitions_get_everything() -> None:
    text = (
        "`filter`: each of 2 partitions gets all tuples: what it emits of them comes from every one of them"
    )
    assert notes((Filter(), "data", "passed"), partitions=2, partitioner=Broadcast()) == [text]


def test_another_key() -> None:
    text = (
        "`bycents`: port `balances` is divided by `cents`, but `balances` before it by `account`: "
        "of tuples with equal `cents` those of "
        "one partition of `balances` keep their order"
    )
    assert notes((Balances(), "payments", "balances"), (ByCents(), "balances", ""), partitions=2) == [text]


def test_state_of_each_partition() -> None:
    alone = "each partition keeps state {} for itself, and no unifier merges what they emit on `out`"
    assert notes((Counting(), "payments", "out"), partitions=2) == [
        f"`counting`: {alone.format('`count`, `recent`')}"
    ]
    assert notes((Merging(), "payments", "out"), partitions=2) == []
    in_turn = notes((Counting(), "payments", "out"), partitions=3, partitioner=RoundRobinPartitioner())
    assert in_turn == [
        f"`counting`: port `payments` {ROUND_ROBIN}",
        f"`counting`: {alone.format('`totals`, `count`, `recent`')}",
    ]


def test_a_join_divided_by_one_of_its_ports() -> None:
    app = Application("test")
    source = app.add_operator("source", Source())
    balances = app.add_operator("balances", Balances())
    join = app.add_operator("join", Join(), partitions=2, partitioner=StickyPartitioner("left"))
    app.add_stream("payments", source.payments, join.left, balances.payments)
    app.add_stream("balances", balances.balances, join.right)
    plan = plan_application(app)
    assert are(
        find_notes(plan.logical, plan.physical),
        ["`join`: each of 2 partitions gets all tuples of ... them comes from every one of them"],
    )


TIED = (
    "readers of stream `read` are committed together: in each window `alerts` waits with its results for "
    "`heavy`; `ridgeline critical-path` says how long"
)


class Both(Operator):
    left = InputPort(Any)
    right = InputPort(Any)

    @left.process
    def of_left(self, one): ...

    @right.process
    def of_right(self, one): ...


def tied(app):
    plan = plan_application(app)
    return [(n.where, n.text) for n in find_notes(plan.logical, plan.physical) if "together" in n.text]


def branches(heavy=1, quick=1, *, upstream=1):
    """`quick` into `alerts` and `heavy` into `table`, which read the same stream."""
    app = Application("test")
    source = app.add_operator("source", Source(), partitions=upstream)
    one = app.add_operator("quick", Filter(), partitions=quick)
    other = app.add_operator("heavy", Filter(), partitions=heavy)
    table = app.add_operator("table", Store())
    app.add_stream("read", source.payments, one.data, other.data)
    app.add_stream("worked", other.passed, table.input)
    app.add_stream("found", one.passed, app.add_operator("alerts", Store()).input)
    return app


def test_a_quick_branch_that_waits_for_a_partitioned_one_is_noted():
    assert tied(branches(heavy=3)) == [("source", TIED)]


@pytest.mark.parametrize("upstream", [1, 2])
def test_nothing_is_noted_where_nobody_has_said_that_one_branch_is_heavier(upstream):
    assert tied(branches(upstream=upstream)) == []
    assert tied(branches(heavy=2, quick=2, upstream=upstream)) == []


def test_nothing_is_noted_of_a_row_of_operators():
    app = in_a_row(Application("test"), source=Source(), heavy=(Filter(), {"partitions": 3}), store=Store())
    assert tied(app) == []


def test_the_heavy_operator_may_be_further_down():
    app = Application("test")
    source = app.add_operator("source", Source())
    first = app.add_operator("first", Filter())
    heavy = app.add_operator("heavy", Filter(), partitions=2)
    app.add_stream("read", source.payments, first.data, app.add_operator("alerts", Store()).input)
    app.add_stream("kept", first.passed, heavy.data)
    app.add_stream("worked", heavy.passed, app.add_operator("table", Store()).input)
    assert tied(app) == [("source", TIED)]


def test_nothing_is_noted_where_branches_come_together_again():
    """All results need both."""
    app = Application("test")
    source = app.add_operator("source", Source())
    quick = app.add_operator("quick", Filter())
    heavy = app.add_operator("heavy", Filter(), partitions=2)
    both = app.add_operator("both", Both())
    app.add_stream("read", source.payments, quick.data, heavy.data)
    app.add_stream("found", quick.passed, both.left)
    app.add_stream("worked", heavy.passed, both.right)
    assert tied(app) == []
