"""Which operators share a container, in which stage it runs, and what it is told."""

from typing import Any

import pytest

from ridgeline.api import Application, KeyedPartitioner
from ridgeline.plan import plan_application
from ridgeline.plan.execution import Container, ExecutionPlan
from ridgeline.plan.region import IDS
from support.plan.parts import Balances, Check, Filter, Follow, Join, Source, Store
from support.rows import in_a_row


def stages(app: Application) -> list[str]:
    """The stages of its plan. In each the operators of containers, which `|` separates."""
    plan = plan_application(app)
    title = {operator.id: operator.title for operator in plan.physical.operators}
    return [
        " | ".join(" ".join(title[operator] for operator in box.operators) for box in stage)
        for stage in plan.execution.stages
    ]


def diamond(*localities: Any, **partitions: int) -> Application:
    """Source -> check -> (valid, rejected): valid -> join.left, rejected -> balances -> join.right."""
    app = Application("diamond")
    source = app.add_operator("source", Source())
    check = app.add_operator("check", Check())
    balances = app.add_operator("balances", Balances(), partitions=partitions.get("balances", 1))
    joined = {"partitions": partitions.get("join", 1), "partitioner": KeyedPartitioner()}
    join = app.add_operator("join", Join(), **joined)
    payments, valid, rejected = (*localities, None, None, None)[:3]
    app.add_stream("payments", source.payments, check.payments, locality=payments)
    app.add_stream("valid", check.valid, join.left, locality=valid)
    app.add_stream("rejected", check.rejected, balances.payments, locality=rejected)
    app.add_stream("balances", balances.balances, join.right)
    return app


def two_sources(locality: str | None) -> Application:
    app = Application("two")
    source = app.add_operator("source", Source())
    other = app.add_operator("other", Source())
    keep = app.add_operator("keep", Filter())
    balances = app.add_operator("balances", Balances())
    join = app.add_operator("join", Join())
    app.add_stream("payments", source.payments, keep.data)
    app.add_stream("kept", keep.passed, join.left, locality=locality)
    app.add_stream("others", other.payments, balances.payments)
    app.add_stream("balances", balances.balances, join.right)
    return app


WHOLE = ["source check balances join"]
WIDE = ["source check", "balances[0] | balances[1]"]
MERGED = [f"balances.balances#unifier[{n}] join[{n}]" for n in range(2)]


@pytest.mark.guide("002", "Streams")
@pytest.mark.parametrize(
    ("app", "expected"),
    [
        (diamond(), WHOLE),
        (diamond(balances=2), [*WIDE, "balances.balances#unifier join"]),
        (diamond(balances=2, join=2), [*WIDE, " | ".join(MERGED)]),
        (diamond("NODE_LOCAL"), ["source", "check balances join"]),
        (diamond("RACK_LOCAL"), ["source", "check balances join"]),
        # `join` may not be with `check`, so not with `balances` either while that is fused with `check`.
        (diamond(None, "NODE_LOCAL"), ["source check balances", "join"]),
        # The latest upstream is the one to join.
        (diamond(None, None, "NODE_LOCAL"), ["source check", "balances join"]),
        # What lies between is taken along.
        (diamond(None, "THREAD_LOCAL"), WHOLE),
        (diamond(None, "CONTAINER_LOCAL"), WHOLE),
        (two_sources(None), ["source keep | other balances", "join"]),
        # An operator is kept out of the container of its input, to be with another.
        (two_sources("THREAD_LOCAL"), ["source | other balances", "keep join"]),
    ],
)
def test_operators_share_a_container_as_far_as_localities_allow(
    app: Application, expected: list[str]
) -> None:
    assert stages(app) == expected


@pytest.mark.guide("002", "Parallel Partitions with Streams Modes")
def test_parallel_partitions_are_fused_one_by_one() -> None:
    app = in_a_row(
        Application("parallel"),
        source=(Source(), {"partitions": 2}),
        follow=Follow(),
        keep=(Filter(), {"partition_parallel": True}),
        store=Store(),
    )
    app.set_attribute("follow", locality="THREAD_LOCAL")
    assert stages(app) == [
        "source[0] follow[0] keep[0] | source[1] follow[1] keep[1]",
        "keep.passed#unifier store",
    ]


def test_intermediate_unifiers_have_containers_of_their_own() -> None:
    app = in_a_row(
        Application("cascade"), source=(Source(), {"partitions": 5, "unifier_limit": 2}), store=Store()
    )
    unifiers = [f"source.payments#unifier[{n}]" for n in range(4)]
    assert stages(app) == [
        " | ".join(f"source[{n}]" for n in range(5)),
        f"{unifiers[0]} | {unifiers[1]}",
        unifiers[2],
        f"{unifiers[3]} store",
    ]


def test_equal_numbers_of_partitions_are_not_enough_to_fuse() -> None:
    two = {"partitions": 2}
    app = in_a_row(
        Application("shuffle"), source=(Source(), two), balances=(Balances(), two), store=(Store(), two)
    )
    assert [len(stage.split("|")) for stage in stages(app)] == [2, 2, 2]


def test_separate_graphs_share_the_stages() -> None:
    app = Application("two")
    for name in ("one", "two"):
        row = {"source": Source(), "balances": (Balances(), {"partitions": 2}), "store": Store()}
        in_a_row(app, **{f"{name}_{kind}": operator for kind, operator in row.items()})
    assert [len(stage.split("|")) for stage in stages(app)] == [2, 4, 2]


def test_regions_that_are_joined_keep_their_own_stages() -> None:
    containers = (Container(0, 0, (0,)), Container(IDS, 0, (IDS,)), Container(IDS + 1, 1, (IDS + 1,)))
    assert ExecutionPlan(containers).stages == [[one] for one in containers]
