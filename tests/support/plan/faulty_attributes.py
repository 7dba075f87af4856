"""Applications with attributes that contradict each other, or that nothing can use."""

from __future__ import annotations

from typing import Any

from ridgeline.api import Application, InputPort, Operator, RoundRobinPartitioner, StreamCodec
from support.plan.faulty import Listing
from support.plan.parts import Filter, Follow, Payment, Source, Store

faulty = Listing()


def followed(
    operator: Any, *, port: str = "data", out: str = "passed", upstream: int = 2, **attributes: Any
) -> Application:
    """Source -> operator -> store."""
    app = Application("test")
    source = app.add_operator("source", Source(), partitions=upstream)
    app.add_operator("operator", operator, **attributes)
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, getattr(operator, port))
    app.add_stream("out", getattr(operator, out), store.input)
    return app


@faulty(
    "`operator.partitions`: attribute `partitions` ... and `partition_parallel`",
    attributes={"operator.partitions": "1"},
)
def partitions_beside_a_parallel_port() -> Application:
    return followed(Follow(), port="payments", out="valid")


@faulty(
    "`source.partition_parallel`: attribute ... follows nothing; leave it out",
    "`source.partitioner`: attribute `partitioner` ... no tuples to divide; leave it out",
    "`source.error_tuples_kept`: attribute ... with `error=True`; leave it out",
    "`store.unifier_limit`: attribute ... has no output port; leave it out",
    attributes={
        "source.partition_parallel": "true",
        "source.error_tuples_kept": "3",
        "store.unifier_limit": "2",
    },
)
def attributes_that_nothing_uses() -> Application:
    app = followed(Filter())
    app.operators[0].attributes["partitioner"] = RoundRobinPartitioner()
    return app


@faulty(
    "`window`: the window of the application: '9999h' is more than a year; give less",
    "`heartbeat_timeout`: attribute ... as silent between two of them",
    "`operator.partitions`: attribute `partitions` ... of the operator; default: 1)",
    attributes={"window": "9999h", "heartbeat_interval": "2s", "heartbeat_timeout": "2s"},
)
def numbers_out_of_range() -> Application:
    return followed(Filter(), partitions=10**9)


class Evenly(StreamCodec):
    def hash(self, tuple: Any) -> int:
        return 0


class BadKeys(Operator):
    none = InputPort(Payment, key=[])
    number = InputPort(Payment, key=5)  # type: ignore[arg-type]
    mixed = InputPort(Payment, key=["account", 3])  # type: ignore[list-item]
    both = InputPort(Payment, key="account", codec=Evenly())
    kind = InputPort(Payment, codec=Evenly)  # type: ignore[arg-type]

    @none.process
    @number.process
    @mixed.process
    @both.process
    @kind.process
    def go(self, payment: Payment) -> None: ...


@faulty(
    "`bad.none`: its key is []; give the name of a ... that makes the key of a tuple",
    "`bad.number`: its key is 5; give the name of a ... that makes the key of a tuple",
    "`bad.mixed`: its key is ['account', 3]; give ... that makes the key of a tuple",
    "`bad.both`: the port has a `key` and a `codec`, ... which tuples; give one of them",
    "`bad.kind`: its codec is <class ... give an instance of a subclass",
)
def keys_that_are_none() -> Application:
    app = Application("test")
    source = app.add_operator("source", Source())
    bad = app.add_operator("bad", BadKeys())
    app.add_stream("payments", source.payments, bad.none, bad.number, bad.mixed, bad.both, bad.kind)
    return app
