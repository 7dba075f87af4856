from typing import Any

import pytest

from ridgeline.api import (
    Application,
    InputPort,
    KeyedPartitioner,
    Operator,
    OutputPort,
    PartitionKeys,
    RoundRobinPartitioner,
    StickyPartitioner,
    StreamCodec,
)
from ridgeline.api.codec import ColumnCodec
from ridgeline.plan import PhysicalOperator, PhysicalPlan, RoundRobin, build_physical, validate
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


def pipeline(
    operator: Any, *, port: str, out: str, upstream: int = 1, store_partitions: int = 1, **attributes: Any
) -> PhysicalPlan:
    """Source -> operator -> store."""
    app = Application("test")
    source = app.add_operator("source", Source(), partitions=upstream)
    added = app.add_operator("operator", operator, **attributes)
    store = app.add_operator("store", Store(), partitions=store_partitions)
    app.add_stream("in", source.payments, getattr(added, port))
    app.add_stream("out", getattr(added, out), store.input)
    return build_physical(validate(app))


def titles(plan: PhysicalPlan) -> list[str]:
    return [operator.title for operator in plan.operators]


def of(plan: PhysicalPlan, name: str) -> list[PhysicalOperator]:
    return [operator for operator in plan.operators if operator.name == name and not operator.unifier]


def entering(plan: PhysicalPlan, title: str) -> list[tuple[str, Any]]:
    """The sources of an operator, with routes."""
    (identity,) = [operator.id for operator in plan.operators if operator.title == title]
    return [
        (plan.operator(stream.source).title, stream.route)
        for stream in plan.streams
        if stream.sink == identity
    ]


@pytest.mark.guide("002", "Static Partitioning")
@pytest.mark.guide("004", "Static vs Dynamic")
def test_payments() -> None:
    plan = build_physical(validate(payments_app()))
    assert [operator.id for operator in plan.operators] == list(range(1, 17))
    assert titles(plan) == [
        "source[0]",
        "source[1]",
        "source.payments#unifier",
        "check",
        "balances[0]",
        "balances[1]",
        "balances[2]",
        "balances.balances#unifier[0]",
        "balances.balances#unifier[1]",
        "top[0]",
        "top[1]",
        "balances.balances#unifier[2]",
        "balance_store",
        "top.top#unifier",
        "top_store",
        "rejected_store",
    ]
    assert entering(plan, "check") == [("source.payments#unifier", None)]
    assert entering(plan, "source.payments#unifier") == [("source[0]", None), ("source[1]", None)]
    assert entering(plan, "balances[0]") == [("check", PartitionKeys(3, frozenset({0, 3})))]
    assert entering(plan, "balances.balances#unifier[1]") == [
        (f"balances[{n}]", PartitionKeys(1, frozenset({1}))) for n in range(3)
    ]
    assert entering(plan, "balances.balances#unifier[2]") == [(f"balances[{n}]", None) for n in range(3)]
    assert entering(plan, "top[1]") == [("balances.balances#unifier[1]", None)]
    assert len(plan.streams) == 22


@pytest.mark.guide("002", "Operators")
def test_deterministic() -> None:
    first, second = (build_physical(validate(payments_app())) for _ in range(2))
    assert titles(first) == titles(second)
    strip = [
        [(s.name, s.source, s.source_port, s.sink, s.sink_port, s.route) for s in plan.streams]
        for plan in (first, second)
    ]
    assert strip[0] == strip[1]


@pytest.mark.guide("002", "Scalability and Partitioning")
@pytest.mark.guide("004", "Partitioning")
@pytest.mark.parametrize(
    ("count", "mask", "keys"),
    [
        (1, 0, [{0}]),
        (2, 1, [{0}, {1}]),
        (3, 3, [{0, 3}, {1}, {2}]),
        (5, 7, [{0, 5}, {1, 6}, {2, 7}, {3}, {4}]),
    ],
)
def test_sticky_keys(count: int, mask: int, keys: list[set[int]]) -> None:
    plan = pipeline(Balances(), port="payments", out="balances", partitions=count)
    partitions = of(plan, "operator")
    assert [operator.keys for operator in partitions] == [
        {"payments": PartitionKeys(mask, frozenset(part))} for part in keys
    ]
    assert [(operator.partition, operator.partitions) for operator in partitions] == [
        (n, count) for n in range(count)
    ]
    routes = [stream.route for stream in plan.streams if stream.name == "in"]
    assert routes == ([None] if count == 1 else [PartitionKeys(mask, frozenset(part)) for part in keys])
    codecs = [stream.codec for stream in plan.streams if stream.name == "in"]
    assert all(isinstance(codec, ColumnCodec) and codec.columns == ("account",) for codec in codecs) or (
        count == 1 and codecs == [None]
    )


def test_round_robin_without_a_key() -> None:
    plan = pipeline(Check(), port="payments", out="valid", partitions=3)
    assert [entering(plan, f"operator[{n}]") for n in range(3)] == [
        [("source", RoundRobin(n, 3))] for n in range(3)
    ]
    assert of(plan, "operator")[0].round_robin == {"payments"}
    assert of(plan, "operator")[0].keys == {}


@pytest.mark.guide("002", "Sticky Partition vs Round Robin")
def test_round_robin_in_spite_of_a_key() -> None:
    plan = pipeline(
        Balances(), port="payments", out="balances", partitions=2, partitioner=RoundRobinPartitioner()
    )
    assert entering(plan, "operator[1]") == [("source", RoundRobin(1, 2))]


@pytest.mark.guide("002", "NxM Partitions")
def test_n_to_m_has_one_unifier_for_each_downstream_partition() -> None:
    plan = pipeline(Balances(), port="payments", out="balances", upstream=3, partitions=2, store_partitions=2)
    assert titles(plan) == [
        *(f"source[{n}]" for n in range(3)),
        "source.payments#unifier[0]",
        "source.payments#unifier[1]",
        "operator[0]",
        "operator[1]",
        "operator.balances#unifier[0]",
        "operator.balances#unifier[1]",
        "store[0]",
        "store[1]",
    ]
    assert entering(plan, "source.payments#unifier[1]") == [
        (f"source[{n}]", PartitionKeys(1, frozenset({1}))) for n in range(3)
    ]
    assert entering(plan, "operator[1]") == [("source.payments#unifier[1]", None)]
    assert entering(plan, "operator.balances#unifier[0]") == [
        ("operator[0]", RoundRobin(0, 2)),
        ("operator[1]", RoundRobin(0, 2)),
    ]


@pytest.mark.guide("004", "Unifiers")
def test_unifiers_are_operators_of_their_own() -> None:
    plan = pipeline(
        TopOfPayments(),
        port="payments",
        out="top",
        partitions=2,
        application_window_count=9,
        processing_mode="EXACTLY_ONCE",
        recovery_attempts=1,
    )
    (unifier,) = [operator for operator in plan.operators if operator.unifier]
    assert (unifier.name, unifier.port, unifier.partition, unifier.partitions) == ("operator", "top", 0, 1)
    assert isinstance(unifier.operator, MergeBalances)
    assert unifier.operator is not TopOfPayments.top.unifier
    assert unifier.operator.size == 3
    assert unifier.attributes["application_window_count"] == 9
    assert unifier.attributes["processing_mode"] == "EXACTLY_ONCE"
    assert unifier.attributes["recovery_attempts"] == 1
    assert unifier.attributes["partitions"] == 1
    assert list(unifier.inputs) == ["input"]
    assert list(unifier.outputs) == ["output"]
    assert unifier.keys == {}


class TopOfPayments(Operator):
    payments = InputPort(Payment, key="account")
    top = OutputPort(TopBalances.top.declared, unifier=MergeBalances(size=3))

    @payments.process
    def note(self, payment: Payment) -> None: ...


def test_a_unifier_that_merges_sees_all_tuples_before_they_are_divided() -> None:
    plan = pipeline(
        TopOfPayments(), port="payments", out="top", partitions=3, store_partitions=2, unifier_limit=2
    )
    assert titles(plan)[1:] == [
        "operator[0]",
        "operator[1]",
        "operator[2]",
        "operator.top#unifier[0]",
        "operator.top#unifier[1]",
        "store[0]",
        "store[1]",
    ]
    assert entering(plan, "operator.top#unifier[1]") == [
        ("operator.top#unifier[0]", None),
        ("operator[2]", None),
    ]
    assert entering(plan, "store[1]") == [("operator.top#unifier[1]", RoundRobin(1, 2))]


@pytest.mark.guide("004", "Default Unifier")
def test_the_default_unifier_takes_the_schema_of_the_stream() -> None:
    plan = pipeline(Check(), port="payments", out="valid", partitions=2)
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
    plan = pipeline(Check(), port="payments", out="valid", partitions=count, unifier_limit=limit)
    unifiers = [operator for operator in plan.operators if operator.unifier]
    sizes = [sum(stream.sink == unifier.id for stream in plan.streams) for unifier in unifiers]
    assert sizes == [size for level in groups for size in level]
    assert [unifier.partition for unifier in unifiers] == list(range(len(sizes)))
    assert {unifier.partitions for unifier in unifiers} == {len(sizes)}
    assert max(sizes) <= limit


def test_only_the_last_unifiers_of_a_cascade_divide() -> None:
    plan = pipeline(Check(), port="payments", out="valid", partitions=5, unifier_limit=2, store_partitions=2)
    assert titles(plan)[6:] == [*(f"operator.valid#unifier[{n}]" for n in range(5)), "store[0]", "store[1]"]
    assert entering(plan, "operator.valid#unifier[0]") == [("operator[0]", None), ("operator[1]", None)]
    assert entering(plan, "operator.valid#unifier[1]") == [("operator[2]", None), ("operator[3]", None)]
    assert entering(plan, "operator.valid#unifier[2]") == [
        ("operator.valid#unifier[0]", None),
        ("operator.valid#unifier[1]", None),
    ]
    assert entering(plan, "operator.valid#unifier[4]") == [
        ("operator.valid#unifier[2]", RoundRobin(1, 2)),
        ("operator[4]", RoundRobin(1, 2)),
    ]


@pytest.mark.guide("002", "Parallel")
def test_parallel_partitions_need_no_unifier() -> None:
    plan = pipeline(Follow(), port="payments", out="valid", upstream=3)
    assert titles(plan) == [
        *(f"source[{n}]" for n in range(3)),
        *(f"operator[{n}]" for n in range(3)),
        "operator.valid#unifier",
        "store",
    ]
    assert [entering(plan, f"operator[{n}]") for n in range(3)] == [
        [(f"source[{n}]", None)] for n in range(3)
    ]
    assert of(plan, "operator")[1].keys == {}


def join_app(**attributes: Any) -> PhysicalPlan:
    app = Application("test")
    source = app.add_operator("source", Source())
    balances = app.add_operator("balances", Balances(), partitions=2)
    join = app.add_operator("join", Join(), **attributes)
    app.add_stream("payments", source.payments, join.left, balances.payments)
    app.add_stream("balances", balances.balances, join.right)
    return build_physical(validate(app))


@pytest.mark.guide("004", "Multiple Ports")
def test_other_ports_are_broadcast() -> None:
    plan = join_app(partitions=2, partitioner=StickyPartitioner("left"))
    assert entering(plan, "join[1]") == [
        ("source", PartitionKeys(1, frozenset({1}))),
        ("balances.balances#unifier[1]", None),
    ]
    assert entering(plan, "balances.balances#unifier[1]") == [("balances[0]", None), ("balances[1]", None)]
    assert list(of(plan, "join")[0].keys) == ["left"]


@pytest.mark.guide("004", "Stream Manipulation")
@pytest.mark.parametrize("attributes", [{}, {"partitioner": KeyedPartitioner()}])
def test_equal_keys_meet(attributes: dict[str, Any]) -> None:
    plan = join_app(partitions=2, **attributes)
    keys = PartitionKeys(1, frozenset({1}))
    assert of(plan, "join")[1].keys == {"left": keys, "right": keys}
    assert entering(plan, "balances.balances#unifier[1]") == [("balances[0]", keys), ("balances[1]", keys)]


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
    plan = pipeline(Coded(), port="payments", out="out", partitions=2)
    assert {stream.codec for stream in plan.streams if stream.name == "in"} == {EVENLY}
