"""Applications with faulty unifiers, partitions and localities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.api import (
    Application,
    InputPort,
    KeyedPartitioner,
    Operator,
    OutputPort,
    Partition,
    Partitioner,
    PartitionKeys,
    StickyPartitioner,
    Unifier,
)
from support.plan.faulty import Listing
from support.plan.parts import Balance, Balances, Check, Filter, Join, MergeBalances, Payment, Source, Store
from support.rows import in_a_row

faulty = Listing()


class TwoInputs(Unifier):
    one = InputPort(Balance)
    two = InputPort(Balance)
    output = OutputPort(Balance)


class MergePayments(Unifier):
    input = InputPort(Payment)
    output = OutputPort(Balance)


class Demanding(MergeBalances):
    def __init__(self, size: int) -> None:
        super().__init__(size=size)


class BadUnifiers(Operator):
    payments = InputPort(Payment)
    none: Any = OutputPort(Balance, unifier=Filter)  # type: ignore[arg-type]
    number: Any = OutputPort(Balance, unifier=3)  # type: ignore[arg-type]
    two = OutputPort(Balance, unifier=TwoInputs())
    schema_ = OutputPort(Balance, unifier=MergePayments)
    made = OutputPort(Balance, unifier=Demanding)  # type: ignore[arg-type]
    small = OutputPort(Balance, unifier=MergeBalances(size=0))

    @payments.process
    def go(self, payment: Payment) -> None: ...


@faulty(
    "`bad.none`: its unifier `Filter` is no ... input port and one output port",
    "`bad.number`: its unifier 3 is no `Unifier`; ... input port and one output port",
    "`bad.two`: its unifier `TwoInputs` has 2 input ports and 1 output ports; give it one of each",
    "`bad.schema_`: port `input` of its unifier ... and gives what the port gives",
    "`bad.made`: its unifier `Demanding` cannot be ... `unifier=Demanding(...)`",
    "`bad.small`: its unifier: property `size` of ... in `MergeBalances(size=...)`",
)
def unifiers_that_cannot_unify() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    bad = app.add_operator("bad", BadUnifiers())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, bad.payments)
    app.add_stream("out", bad.two, store.input)
    return app


class Single(Balances):
    parallelizable = False


@faulty(
    "`balances.partitions`: it has 3 partitions, but ... than one; leave `partitions` out",
    attributes={"balances.partitions": "3"},
)
def more_partitions_than_an_operator_can_have() -> Application:
    app = in_a_row(Application("test"), source=Source(), balances=Single(), store=Store())
    app.streams[-1].locality = "THREAD_LOCAL"
    return app


class Given(Partitioner):
    """Returns what it is given."""

    def __init__(self, partitions: Any) -> None:
        self.partitions = partitions

    def define_partitions(self, count: int, ports: Any) -> Sequence[Partition]:
        return self.partitions

    def __repr__(self) -> str:
        return "Given()"


def partitioned(partitioner: Partitioner, count: int = 2, kind: type[Operator] = Balances) -> Application:
    """Add an operator with that partitioner."""
    app = Application("test")
    source = app.add_operator("source", Source())
    operator: Any = app.add_operator("operator", kind(), partitions=count, partitioner=partitioner)
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, operator.payments)
    app.add_stream("out", operator.balances if kind is Balances else operator.valid, store.input)
    return app


def sticky(*keys: tuple[int, set[int]], port: str = "payments") -> Given:
    """A partitioner that gives these masks and keys."""
    return Given([Partition({port: PartitionKeys(mask, frozenset(of_mask))}) for mask, of_mask in keys])


@faulty("`operator`: KeyedPartitioner() cannot make 2 ... or number of partitions")
def partitioner_that_refuses() -> Application:
    return partitioned(KeyedPartitioner(), kind=Check)


@faulty("`operator`: Given() gave None, which is no list ... of `Partition(keys, round_robin)`")
def partitioner_that_fails() -> Application:
    return partitioned(Given(None), count=3)


@faulty("`operator`: Given() gave 0 partitions; return at least one ... 65536")
def no_partitions() -> Application:
    return partitioned(Given([]))


@faulty("`operator`: Given() gave 1,000,000 partitions; return at least one ... 65536")
def a_million_partitions() -> Application:
    return partitioned(Given([Partition()] * 10**6))


@faulty("`operator`: Given() gave partitions that are none: ... a list of `Partition(keys, round_robin)`")
def a_mask_that_is_no_number() -> Application:
    wrong = Partition({"payments": PartitionKeys("x", frozenset())})  # type: ignore[arg-type]
    return partitioned(Given([wrong, wrong]))


@faulty(
    "`source.partitioner`: attribute `partitioner` would do nothing: ... no tuples to divide; leave it out"
)
def a_partitioner_of_an_input() -> Application:
    source = (Source(), {"partitions": 2, "partitioner": StickyPartitioner()})
    return in_a_row(Application("test"), source=source, store=Store())


@faulty("`operator`: Given() gave 1 partition; 2 were ... set `partitions` to what it gives")
def wrong_number_of_partitions() -> Application:
    return partitioned(sticky((0, {0})))


@faulty("`operator`: Given() divides an input port ... name input ports of the operator")
def keys_of_an_unknown_port() -> Application:
    return partitioned(sticky((1, {0}), (1, {1}), port="payment"))


@faulty("`operator`: Given() divides port `payments` by ... or divide it round robin")
def keys_of_a_port_without_key() -> Application:
    return partitioned(sticky((1, {0}), (1, {1})), kind=Check)


@faulty("`operator`: Given() divides port `payments` by ... it out: then each gets all tuples")
def port_divided_in_two_ways() -> Application:
    return partitioned(
        Given(
            [
                Partition({"payments": PartitionKeys(0, frozenset({0}))}),
                Partition(round_robin=frozenset({"payments"})),
            ]
        )
    )


@faulty("`operator`: Given(): tuples of port `payments` ... key to exactly one partition")
def missing_keys() -> Application:
    return partitioned(sticky((3, {0, 2}), (7, {1, 5, 7})))


@faulty("`operator`: Given() gave port `payments` the ... mask 1; use keys within the mask")
def keys_beyond_the_mask() -> Application:
    return partitioned(sticky((1, {0, 2}), (1, {1})))


@faulty("`operator`: Given() gave port `payments` the mask -1; use masks from 0 to 65535")
def mask_beyond_bounds() -> Application:
    return partitioned(sticky((-1, {0}), (1, {1})))


class FollowTwo(Operator):
    one = InputPort(Payment, parallel=True)
    two = InputPort(Payment, parallel=True)

    @one.process
    def first(self, payment: Payment) -> None: ...

    @two.process
    def second(self, payment: Payment) -> None: ...


@faulty("`both`: its parallel ports follow different ... parallel=True)` for one port only")
def parallel_to_different_numbers() -> Application:
    app = Application("test")
    one = app.add_operator("one", Source(), partitions=2)
    two = app.add_operator("two", Source(), partitions=3)
    both = app.add_operator("both", FollowTwo())
    app.add_stream("first", one.payments, both.one)
    app.add_stream("second", two.payments, both.two)
    return app


@faulty(
    "`payments`: locality CONTAINER_LOCAL wants ... or leave the locality out",
    "`balances`: locality THREAD_LOCAL wants ... or leave the locality out",
)
def together_with_other_partitions() -> Application:
    two = {"partitions": 2}
    app = in_a_row(Application("test"), payments=(Source(), two), balances=(Balances(), two), store=Store())
    app.streams[0].locality = "CONTAINER_LOCAL"
    app.streams[1].locality = "THREAD_LOCAL"
    return app


def joined(**localities: str) -> Application:
    """Source -> join, and other -> balances -> join."""
    app = Application("test")
    source = app.add_operator("source", Source())
    join = app.add_operator("join", Join())
    app.add_stream("payments", source.payments, join.left)
    in_a_row(app, others=Source(), balances=Balances())
    app.add_stream("balances", app.operators[-1].operator.balances, join.right)
    for stream in app.streams:
        stream.locality = localities.get(stream.name)
    return app


@faulty("`payments`: locality THREAD_LOCAL wants ... `others`, `balances` out")
def two_inputs_together() -> Application:
    return joined(payments="THREAD_LOCAL", others="THREAD_LOCAL", balances="THREAD_LOCAL")


@faulty("`payments`: locality THREAD_LOCAL wants ... locality of stream `payments` out")
def input_that_would_wait() -> Application:
    return joined(payments="THREAD_LOCAL")


@faulty("`valid`: locality CONTAINER_LOCAL wants ... locality of stream `valid` out")
def container_that_would_wait_for_itself() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    check = app.add_operator("check", Check())
    balances = app.add_operator("balances", Balances(), partitions=2)
    join = app.add_operator("join", Join())
    app.add_stream("payments", source.payments, check.payments)
    app.add_stream("valid", check.valid, join.left, locality="CONTAINER_LOCAL")
    app.add_stream("rejected", check.rejected, balances.payments)
    app.add_stream("balances", balances.balances, join.right)
    return app


class Unpartitioned(Balances):
    partitioner_default = KeyedPartitioner


@faulty("`balances`: `Unpartitioned.partitioner_default` ... of a subclass of `Partitioner`")
def class_as_partitioner() -> Application:
    return in_a_row(Application("test"), source=Source(), balances=Unpartitioned(), store=Store())


@faulty("`payments`: locality CONTAINER_LOCAL wants ... streams `payments`, `passed` out")
def together_and_apart() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    one = app.add_operator("one", Filter())
    join = app.add_operator("join", Join())
    balances = app.add_operator("balances", Balances())
    app.add_stream("payments", source.payments, one.data, balances.payments, locality="CONTAINER_LOCAL")
    app.add_stream("passed", one.passed, join.left, locality="CONTAINER_LOCAL")
    app.add_stream("balances", balances.balances, join.right, locality="NODE_LOCAL")
    return app
