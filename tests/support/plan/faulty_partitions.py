"""Applications with faulty unifiers, partitions and localities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

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
    "`bad.none`: its unifier `Filter` is no `Unifier`; "
    "derive it from `Unifier`, with one input port and one output port",
    "`bad.number`: its unifier 3 is no `Unifier`; "
    "derive it from `Unifier`, with one input port and one output port",
    "`bad.two`: its unifier `TwoInputs` has 2 input ports and 1 output ports; give it one of each",
    (
        "`bad.schema_`: port `input` of its unifier `MergePayments` has the schema Payment(account: "
        "int64, cents: int64, time: "
        "timestamp[us, tz=UTC]), but the port has Balance(account: int64, cents: int64): "
        "field `time` is only there; a unifier "
        "takes and gives what the port gives"
    ),
    (
        "`bad.made`: its unifier `Demanding` cannot be made: "
        "Demanding.__init__() missing 1 required positional argument: "
        "'size'; give an instance, `unifier=Demanding(...)`"
    ),
    (
        "`bad.small`: its unifier: property `size` of `MergeBalances` is 0; input should be greater than 0; "
        "give another "
        "value, in `MergeBalances(size=...)`"
    ),
)
def unifiers_that_cannot_unify() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    bad = app.add_operator("bad", BadUnifiers())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, bad.payments)
    app.add_stream("out", bad.two, store.input)
    return app


class Unread(Operator):
    payments = InputPort(Payment)


class Single(Balances):
    parallelizable = False


@faulty(
    "`unread.payments`: no method of `Unread` processes the tuples of the input port; decorate a method with "
    "`@payments.process` or `@payments.process_batch`"
)
def port_that_nobody_reads() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    unread = app.add_operator("unread", Unread())
    app.add_stream("payments", source.payments, unread.payments)
    return app


@faulty(
    "`balances.partitions`: it has 3 partitions, but `Single` cannot have more than one; "
    "leave `partitions` out",
    attributes={"balances.partitions": "3"},
)
def more_partitions_than_an_operator_can_have() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    balances = app.add_operator("balances", Single())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, balances.payments)
    app.add_stream("balances", balances.balances, store.input, locality="THREAD_LOCAL")
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


@faulty(
    "`operator`: KeyedPartitioner() cannot make 2 partitions: no input port has a key; "
    "choose another partitioner or number of partitions"
)
def partitioner_that_refuses() -> Application:
    return partitioned(KeyedPartitioner(), kind=Check)


@faulty(
    "`operator`: Given() gave None, which is no list of `Partition`; "
    "return a list of `Partition(keys, round_robin)`"
)
def partitioner_that_fails() -> Application:
    return partitioned(Given(None), count=3)


@faulty(
    "`operator`: StickyPartitioner(ports=('payment',)) cannot make 2 partitions: "
    "there is no input port `payment`; choose "
    "another partitioner or number of partitions"
)
def partitioner_for_a_port_that_is_not_there() -> Application:
    return partitioned(StickyPartitioner("payment"))


@faulty(
    "`operator`: Given() gave 1 partition; 2 were asked for; "
    "return as many as `count` says, or set `partitions` to what it gives"
)
def wrong_number_of_partitions() -> Application:
    return partitioned(sticky((0, {0})))


@faulty(
    "`operator`: Given() divides an input port `payment` that is not there; name input ports of the operator"
)
def keys_of_an_unknown_port() -> Application:
    return partitioned(sticky((1, {0}), (1, {1}), port="payment"))


@faulty(
    "`operator`: Given() divides port `payments` by key, but the port has none; "
    "declare `payments = InputPort(..., "
    "key=...)`, or divide it round robin"
)
def keys_of_a_port_without_key() -> Application:
    return partitioned(sticky((1, {0}), (1, {1})), kind=Check)


@faulty(
    "`operator`: Given() divides port `payments` by key for 1 and round robin for 1 of 2 partitions; "
    "divide a port in one way "
    "for all partitions, or leave it out: then each gets all tuples"
)
def port_divided_in_two_ways() -> Application:
    return partitioned(
        Given(
            [
                Partition({"payments": PartitionKeys(0, frozenset({0}))}),
                Partition(round_robin=frozenset({"payments"})),
            ]
        )
    )


@faulty(
    "`operator`: Given(): tuples of port `payments` whose hash ends "
    "in 2 (mask 3) are taken by partitions 0, 1; give every "
    "key to exactly one partition"
)
def overlapping_keys() -> Application:
    return partitioned(sticky((3, {0, 1, 2}), (3, {2, 3})))


@faulty(
    "`operator`: Given(): tuples of port `payments` whose hash ends "
    "in 3 (mask 7) are taken by no partition; give every "
    "key to exactly one partition"
)
def missing_keys() -> Application:
    return partitioned(sticky((3, {0, 2}), (7, {1, 5, 7})))


@faulty(
    "`operator`: Given() gave port `payments` the key 2, which no hash has under the mask 1; "
    "use keys within the mask"
)
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


@faulty(
    "`both`: its parallel ports follow different numbers of partitions: "
    "`one` follows `one` with 2, `two` follows `two` "
    "with 3; give these operators the same number of partitions, or declare `InputPort(..., "
    "parallel=True)` for one port "
    "only"
)
def parallel_to_different_numbers() -> Application:
    app = Application("test")
    one = app.add_operator("one", Source(), partitions=2)
    two = app.add_operator("two", Source(), partitions=3)
    both = app.add_operator("both", FollowTwo())
    app.add_stream("first", one.payments, both.one)
    app.add_stream("second", two.payments, both.two)
    return app


@faulty("`payments`: there is no locality 'THREADLOCAL'; did you mean `THREAD_LOCAL`?")
def locality_that_does_not_exist() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, store.input, locality="THREADLOCAL")
    return app


@faulty(
    (
        "`payments`: locality CONTAINER_LOCAL wants `source` and `balances` in one container, "
        "but each of their 2 partitions "
        "gets tuples of all others: port `balances.payments` is divided by key; "
        "make `payments` an `InputPort(..., "
        "parallel=True)`, give both one partition, or leave the locality out"
    ),
    (
        "`balances`: locality THREAD_LOCAL wants `balances` and `store` in one container, "
        "but `balances` has 2 partitions and "
        "`store` has 1 partition; make `input` an `InputPort(..., parallel=True)`, give both one partition, "
        "or leave the "
        "locality out"
    ),
)
def together_with_other_partitions() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source(), partitions=2)
    balances = app.add_operator("balances", Balances(), partitions=2)
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, balances.payments, locality="CONTAINER_LOCAL")
    app.add_stream("balances", balances.balances, store.input, locality="THREAD_LOCAL")
    return app


@faulty(
    "`payments`: locality THREAD_LOCAL wants `source`, `other`, `balances`, `join` in one container, "
    "but a container holds "
    "one input operator, not `source`, `other`; "
    "leave the locality of one of the streams `payments`, `others`, `balances` "
    "out"
)
def two_inputs_together() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    other = app.add_operator("other", Source())
    balances = app.add_operator("balances", Balances())
    join = app.add_operator("join", Join())
    app.add_stream("payments", source.payments, join.left, locality="THREAD_LOCAL")
    app.add_stream("others", other.payments, balances.payments, locality="THREAD_LOCAL")
    app.add_stream("balances", balances.balances, join.right, locality="THREAD_LOCAL")
    return app


@faulty(
    "`payments`: locality THREAD_LOCAL wants `source`, `join` in one container, "
    "but a container with an input operator "
    "cannot wait for others, and `join.right` gets tuples of `balances`; "
    "leave the locality of stream `payments` out"
)
def input_that_would_wait() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    other = app.add_operator("other", Source())
    balances = app.add_operator("balances", Balances())
    join = app.add_operator("join", Join())
    app.add_stream("payments", source.payments, join.left, locality="THREAD_LOCAL")
    app.add_stream("others", other.payments, balances.payments)
    app.add_stream("balances", balances.balances, join.right)
    return app


@faulty(
    "`valid`: locality CONTAINER_LOCAL wants `check`, `join` in one container, "
    "but it would wait for itself: `check -> "
    "balances -> join` leaves it and comes back; leave the locality of stream `valid` out"
)
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


@faulty(
    "`balances`: `Unpartitioned.partitioner_default` is <class "
    "'ridgeline.api.partitioner.KeyedPartitioner'>, which is no "
    "`Partitioner`; give an instance of a subclass of `Partitioner`"
)
def class_as_partitioner() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    balances = app.add_operator("balances", Unpartitioned())
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, balances.payments)
    app.add_stream("balances", balances.balances, store.input)
    return app


@faulty(
    "`payments`: locality CONTAINER_LOCAL wants `source`, `one`, `join`, `balances` in one container, "
    "but stream "
    "`balances` between them is NODE_LOCAL; leave the locality of one of the streams `payments`, `passed` out"
)
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


class Several(Operator):
    payments = InputPort(Payment, key="acount")
    out = OutputPort(Balance, unifier=MergePayments)

    limit: int = Field(default=1, gt=0)

    @payments.process
    def go(self, payment: Payment) -> None: ...


@faulty(
    (
        "`several faults`: the name of the application has ' ' in it; "
        "use letters, digits, `_` and `-` only: names go into "
        "files, metrics and addresses"
    ),
    (
        "`window`: the window of the application: 'never' is not a duration; "
        'give a number of seconds, or a text such as "200ms", '
        '"1s", "5m" or "1h"; 0 runs windows as fast as they get'
    ),
    (
        "`source.count`: property `count` of `Source` is 'x'; "
        "input should be a valid integer, unable to parse string as an "
        "integer; give another value, in `Source(count=...)` or with `-D source.count=...`"
    ),
    (
        "`several.limit`: property `limit` of `Several` is '0'; input should be greater than 0; "
        "give another value, in "
        "`Several(limit=...)` or with `-D several.limit=...`"
    ),
    (
        "`several.application_window_count`: attribute `application_window_count` must be at least 1; "
        "got 0; give another "
        "value (streaming windows that the operator sees as one; default: 1)"
    ),
    (
        "`several.partitions`: attribute `partitions` must be a whole number; got 'none'; "
        "give another value (number of "
        "instances of the operator; default: 1)"
    ),
    "`payments`: there is no locality 'NEAR'; "
    "known are `CONTAINER_LOCAL`, `NODE_LOCAL`, `RACK_LOCAL`, `THREAD_LOCAL`",
    "`out`: the stream has no sinks; name one or more input ports after its output port",
    (
        "`check.payments`: the input port is not connected; "
        "end a stream there, `add_stream(name, ..., check.payments)`, or "
        "declare it with `optional=True`"
    ),
    "`check`: none of its output ports is connected; "
    "begin a stream at one of `check.valid`, `check.rejected`",
    (
        "`several.payments`: the key column `acount` is not in Payment(account: int64, cents: int64, time: "
        "timestamp[us, "
        "tz=UTC]); did you mean `account`?"
    ),
    (
        "`several.out`: port `input` of its unifier `MergePayments` has the schema Payment(account: "
        "int64, cents: int64, time: "
        "timestamp[us, tz=UTC]), but the port has Balance(account: int64, cents: int64): "
        "field `time` is only there; a unifier "
        "takes and gives what the port gives"
    ),
    properties={"several.limit": "0"},
    attributes={"several.partitions": "none"},
)
def several_faults_at_once() -> Application:
    app = Application("several faults", window="never")
    source = app.add_operator("source", Source(count="x"))
    several = app.add_operator("several", Several(), application_window_count=0)
    app.add_operator("check", Check())
    app.add_stream("payments", source.payments, several.payments, locality="NEAR")
    app.add_stream("out", several.out)
    return app
