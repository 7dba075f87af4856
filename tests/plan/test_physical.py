from typing import Any

import pytest

from ridgeline.api import (
    Application,
    InputPort,
    KeyedPartitioner,
    Operator,
    OutputPort,
    RoundRobinPartitioner,
    StickyPartitioner,
    StreamCodec,
)
from ridgeline.api.partitioner import assign_keys
from ridgeline.plan import PhysicalPlan, build_physical, describe, plan_application, validate
from support.plan.parts import (
    Balances,
    Check,
    Follow,
    Join,
    MergeBalances,
    Payment,
    Source,
    Store,
    TopBalances,
    payments_app,
)
from support.rows import in_a_row


def row(operator: Any, upstream: int = 1, stores: int = 1, **attributes: Any) -> Application:
    """Source -> operator -> store."""
    return in_a_row(
        Application("test"),
        source=(Source(), {"partitions": upstream}),
        step=(operator, attributes),
        store=(Store(), {"partitions": stores}),
    )


def planned(operator: Any, **attributes: Any) -> PhysicalPlan:
    return build_physical(validate(row(operator, **attributes)))


def joined(**attributes: Any) -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    balances = app.add_operator("balances", Balances(), partitions=2)
    join = app.add_operator("join", Join(), **attributes)
    app.add_stream("payments", source.payments, join.left, balances.payments)
    app.add_stream("balances", balances.balances, join.right)
    return app


class TopOfPayments(Operator):
    payments = InputPort(Payment, key="account")
    top = OutputPort(TopBalances.top.declared, unifier=MergeBalances(size=3))

    @payments.process
    def note(self, payment: Payment) -> None: ...


PLANS = {
    "payments": (
        payments_app(),
        """
        source[0]
        source[1]
        source.payments#unifier input: all of source[0], source[1]
        check payments: all of source.payments#unifier
        balances[0] payments: hash & 1023 in {0, ..., 1022: 341 keys} of check
        balances[1] payments: hash & 1023 in {1, ..., 1023: 342 keys} of check
        balances[2] payments: hash & 1023 in {2, ..., 682: 341 keys} of check
        balances.balances#unifier[0] input: hash & 1 in {0} of balances[0], balances[1], balances[2]
        balances.balances#unifier[1] input: hash & 1 in {1} of balances[0], balances[1], balances[2]
        top[0] balances: all of balances.balances#unifier[0]
        top[1] balances: all of balances.balances#unifier[1]
        balances.balances#unifier[2] input: all of balances[0], balances[1], balances[2]
        balance_store input: all of balances.balances#unifier[2]
        top.top#unifier input: all of top[0], top[1]
        top_store input: all of top.top#unifier
        rejected_store input: all of check
        """,
    ),
    "round robin without a key": (
        row(Check(), partitions=3),
        """
        source
        step[0] payments: one tuple in 3, from number 0, of source
        step[1] payments: one tuple in 3, from number 1, of source
        step[2] payments: one tuple in 3, from number 2, of source
        step.valid#unifier input: all of step[0], step[1], step[2]
        store input: all of step.valid#unifier
        """,
    ),
    "round robin in spite of a key": (
        row(Balances(), partitions=2, partitioner=RoundRobinPartitioner()),
        """
        source
        step[0] payments: one tuple in 2, from number 0, of source
        step[1] payments: one tuple in 2, from number 1, of source
        step.balances#unifier input: all of step[0], step[1]
        store input: all of step.balances#unifier
        """,
    ),
    "n to m: a unifier for each partition downstream": (
        row(Balances(), upstream=3, partitions=2, stores=2),
        """
        source[0]
        source[1]
        source[2]
        source.payments#unifier[0] input: hash & 1 in {0} of source[0], source[1], source[2]
        source.payments#unifier[1] input: hash & 1 in {1} of source[0], source[1], source[2]
        step[0] payments: all of source.payments#unifier[0]
        step[1] payments: all of source.payments#unifier[1]
        step.balances#unifier[0] input: one tuple in 2, from number 0, of step[0], step[1]
        step.balances#unifier[1] input: one tuple in 2, from number 1, of step[0], step[1]
        store[0] input: all of step.balances#unifier[0]
        store[1] input: all of step.balances#unifier[1]
        """,
    ),
    "a unifier that merges sees all tuples before they are divided": (
        row(TopOfPayments(), partitions=3, stores=2, unifier_limit=2),
        """
        source
        step[0] payments: hash & 1023 in {0, ..., 1022: 341 keys} of source
        step[1] payments: hash & 1023 in {1, ..., 1023: 342 keys} of source
        step[2] payments: hash & 1023 in {2, ..., 682: 341 keys} of source
        step.top#unifier[0] input: all of step[0], step[1]
        step.top#unifier[1] input: all of step.top#unifier[0], step[2]
        store[0] input: one tuple in 2, from number 0, of step.top#unifier[1]
        store[1] input: one tuple in 2, from number 1, of step.top#unifier[1]
        """,
    ),
    "only the last unifiers of a cascade divide": (
        row(Follow(), upstream=3, unifier_limit=2, stores=2),
        """
        source[0]
        source[1]
        source[2]
        step[0] payments: all of source[0]
        step[1] payments: all of source[1]
        step[2] payments: all of source[2]
        step.valid#unifier[0] input: all of step[0], step[1]
        step.valid#unifier[1] input: one tuple in 2, from number 0, of step.valid#unifier[0], step[2]
        step.valid#unifier[2] input: one tuple in 2, from number 1, of step.valid#unifier[0], step[2]
        store[0] input: all of step.valid#unifier[1]
        store[1] input: all of step.valid#unifier[2]
        """,
    ),
    "other ports get all tuples": (
        joined(partitions=2, partitioner=StickyPartitioner("left")),
        """
        source
        balances[0] payments: hash & 1 in {0} of source
        balances[1] payments: hash & 1 in {1} of source
        balances.balances#unifier[0] input: all of balances[0], balances[1]
        balances.balances#unifier[1] input: all of balances[0], balances[1]
        join[0] left: hash & 1 in {0} of source; right: all of balances.balances#unifier[0]
        join[1] left: hash & 1 in {1} of source; right: all of balances.balances#unifier[1]
        """,
    ),
    "equal keys meet": (
        joined(partitions=2, partitioner=KeyedPartitioner()),
        """
        source
        balances[0] payments: hash & 1 in {0} of source
        balances[1] payments: hash & 1 in {1} of source
        balances.balances#unifier[0] input: hash & 1 in {0} of balances[0], balances[1]
        balances.balances#unifier[1] input: hash & 1 in {1} of balances[0], balances[1]
        join[0] left: hash & 1 in {0} of source; right: all of balances.balances#unifier[0]
        join[1] left: hash & 1 in {1} of source; right: all of balances.balances#unifier[1]
        """,
    ),
}


@pytest.mark.guide("002", "Static Partitioning")
@pytest.mark.guide("002", "Sticky Partition vs Round Robin")
@pytest.mark.guide("002", "NxM Partitions")
@pytest.mark.guide("002", "Parallel")
@pytest.mark.guide("004", "Static vs Dynamic")
@pytest.mark.guide("004", "Multiple Ports")
@pytest.mark.guide("004", "Stream Manipulation")
@pytest.mark.guide("002", "Single vs Multi-Input Operator")
@pytest.mark.guide("004", "Single vs Multiple Inputs")
@pytest.mark.guide("004", "Joins")
@pytest.mark.parametrize("name", PLANS)
def test_what_each_partition_gets(name: str) -> None:
    """As `ridgeline plan` prints it."""
    app, expected = PLANS[name]
    text = describe(plan_application(app)).partition("physical plan:")[2].partition("execution plan:")[0]
    found = [" ".join(line.split()[1:]) for line in text.strip().splitlines()[2:]]
    assert found == [line.strip() for line in expected.strip().splitlines()]


@pytest.mark.guide("002", "Operators")
def test_deterministic() -> None:
    first, second = (describe(plan_application(payments_app())) for _ in range(2))
    assert first == second


@pytest.mark.guide("002", "Scalability and Partitioning")
@pytest.mark.guide("004", "Partitioning")
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_sticky_keys(count: int) -> None:
    plan = planned(Balances(), partitions=count)
    partitions = [operator for operator in plan.operators if operator.name == "step"][:count]
    expected = assign_keys(count)
    assert [operator.keys for operator in partitions] == [{"payments": one} for one in expected]
    assert [(one.partition, one.partitions) for one in partitions] == [(n, count) for n in range(count)]
    streams = [stream for stream in plan.streams if stream.name == "source"]
    assert [stream.route for stream in streams] == (expected if count > 1 else [None])
    assert {stream.codec.columns for stream in streams if stream.codec} == (
        {("account",)} if count > 1 else set()
    )
    assert len({id(stream.codec) for stream in streams}) == 1, "tuples are hashed once for all partitions"


@pytest.mark.guide("004", "Unifiers")
def test_unifiers_are_operators_of_their_own() -> None:
    attributes = {"application_window_count": 9, "processing_mode": "EXACTLY_ONCE", "recovery_attempts": 1}
    plan = planned(TopOfPayments(), partitions=2, **attributes)
    (unifier,) = [operator for operator in plan.operators if operator.unifier]
    assert (unifier.name, unifier.port, unifier.partition, unifier.partitions) == ("step", "top", 0, 1)
    assert isinstance(unifier.operator, MergeBalances)
    assert unifier.operator is not TopOfPayments.top.unifier
    assert unifier.operator.size == 3
    assert unifier.attributes.items() >= {**attributes, "partitions": 1}.items()
    assert list(unifier.inputs) == ["input"]
    assert list(unifier.outputs) == ["output"]
    assert unifier.keys == {}


@pytest.mark.guide("004", "Default Unifier")
def test_the_default_unifier_takes_the_schema_of_the_stream() -> None:
    plan = planned(Check(), partitions=2)
    (unifier,) = [operator for operator in plan.operators if operator.unifier]
    assert unifier.inputs["input"].type is Payment
    assert unifier.outputs["output"].type is Payment


@pytest.mark.guide("002", "Cascading Unifier")
@pytest.mark.parametrize(
    ("count", "limit", "groups"),
    [
        (4, 4, [[4]]),
        (4, 2, [[2, 2], [2]]),
        (5, 2, [[2, 2], [2], [2]]),
        (5, 3, [[3, 2], [2]]),
        (4, 3, [[3], [2]]),
        (7, 3, [[3, 3], [3]]),
        (9, 2, [[2, 2, 2, 2], [2, 2], [2], [2]]),
    ],
)
def test_cascades(count: int, limit: int, groups: list[list[int]]) -> None:
    plan = planned(Check(), partitions=count, unifier_limit=limit)
    unifiers = [operator for operator in plan.operators if operator.unifier]
    sizes = [sum(stream.sink == unifier.id for stream in plan.streams) for unifier in unifiers]
    assert sizes == [size for level in groups for size in level]
    assert [unifier.partition for unifier in unifiers] == list(range(len(sizes)))
    assert {unifier.partitions for unifier in unifiers} == {len(sizes)}
    assert max(sizes) <= limit


class Evenly(StreamCodec):
    def hash(self, tuple: Any) -> int:
        return int(tuple.account)


EVENLY = Evenly()


class Coded(Operator):
    payments = InputPort(Payment, codec=EVENLY)
    out = OutputPort(Payment)

    @payments.process
    def go(self, payment: Payment) -> None: ...


@pytest.mark.guide("004", "StreamCodec")
def test_codec_of_the_port() -> None:
    plan = planned(Coded(), partitions=2)
    assert {stream.codec for stream in plan.streams if stream.name == "source"} == {EVENLY}
