from typing import Any

import pytest

from ridgeline.api import Application, KeyedPartitioner
from ridgeline.plan import Plan, plan_application
from support.plan.parts import Balances, Check, Filter, Follow, Join, Source, Store, payments_app
from support.rows import in_a_row


def stages(plan: Plan) -> list[list[list[str]]]:
    """The titles of the operators of each container of each stage."""
    title = {operator.id: operator.title for operator in plan.physical.operators}
    return [
        [[title[operator] for operator in box.operators] for box in stage.containers]
        for stage in plan.execution.stages
    ]


def test_payments() -> None:
    plan = plan_application(payments_app())
    assert plan.version == 0
    assert stages(plan) == [
        [["source[0]"], ["source[1]"]],
        [["source.payments#unifier", "check", "rejected_store"]],
        [["balances[0]"], ["balances[1]"], ["balances[2]"]],
        [
            ["balances.balances#unifier[0]", "top[0]"],
            ["balances.balances#unifier[1]", "top[1]"],
            ["balances.balances#unifier[2]", "balance_store"],
        ],
        [["top.top#unifier", "top_store"]],
    ]
    assert [box.id for box in plan.execution.containers] == list(range(10))
    assert [stage.index for stage in plan.execution.stages] == list(range(5))
    assert [box.stage for box in plan.execution.containers] == [0, 0, 1, 2, 2, 2, 3, 3, 3, 4]


def diamond(*localities: Any, **partitions: int) -> Application:
    """Source -> check -> (valid, rejected): valid -> join.left, rejected -> balances -> join.right."""
    app = Application("diamond")
    source = app.add_operator("source", Source())
    check = app.add_operator("check", Check(), partitions=partitions.get("check", 1))
    balances = app.add_operator("balances", Balances(), partitions=partitions.get("balances", 1))
    join = app.add_operator(
        "join", Join(), partitions=partitions.get("join", 1), partitioner=KeyedPartitioner()
    )
    names = ("payments", "valid", "rejected", "balances")
    locality = dict(zip(names, [*localities, None, None, None, None], strict=False))
    app.add_stream("payments", source.payments, check.payments, locality=locality["payments"])
    app.add_stream("valid", check.valid, join.left, locality=locality["valid"])
    app.add_stream("rejected", check.rejected, balances.payments, locality=locality["rejected"])
    app.add_stream("balances", balances.balances, join.right, locality=locality["balances"])
    return app


def test_a_diamond_in_one_container() -> None:
    assert stages(plan_application(diamond())) == [[["source", "check", "balances", "join"]]]


def test_a_diamond_with_one_wide_side() -> None:
    assert stages(plan_application(diamond(balances=2))) == [
        [["source", "check"]],
        [["balances[0]"], ["balances[1]"]],
        [["balances.balances#unifier", "join"]],
    ]


def test_a_diamond_with_a_wide_end_skips_a_stage() -> None:
    assert stages(plan_application(diamond(balances=2, join=2))) == [
        [["source", "check"]],
        [["balances[0]"], ["balances[1]"]],
        [["balances.balances#unifier[0]", "join[0]"], ["balances.balances#unifier[1]", "join[1]"]],
    ]


@pytest.mark.parametrize("locality", ["NODE_LOCAL", "RACK_LOCAL"])
def test_apart(locality: str) -> None:
    assert stages(plan_application(diamond(locality))) == [[["source"]], [["check", "balances", "join"]]]


def test_apart_even_if_another_way_leads_there() -> None:
    """`join` may not be with `check`, so not with `balances` either while that is fused with `check`."""
    assert stages(plan_application(diamond(None, "NODE_LOCAL"))) == [
        [["source", "check", "balances"]],
        [["join"]],
    ]


def test_the_latest_upstream_is_the_one_to_join() -> None:
    plan = plan_application(diamond(None, None, "NODE_LOCAL"))
    assert stages(plan) == [[["source", "check"]], [["balances", "join"]]]


@pytest.mark.parametrize("locality", ["THREAD_LOCAL", "CONTAINER_LOCAL"])
def test_together_takes_along_what_lies_between(locality: str) -> None:
    assert stages(plan_application(diamond(None, locality))) == [[["source", "check", "balances", "join"]]]


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


def test_two_inputs_meet_in_the_next_stage() -> None:
    assert stages(plan_application(two_sources(None))) == [
        [["source", "keep"], ["other", "balances"]],
        [["join"]],
    ]


@pytest.mark.guide("002", "Streams")
def test_together_keeps_an_operator_out_of_its_inputs_container() -> None:
    assert stages(plan_application(two_sources("THREAD_LOCAL"))) == [
        [["source"], ["other", "balances"]],
        [["keep", "join"]],
    ]


@pytest.mark.guide("002", "Parallel Partitions with Streams Modes")
def test_parallel_partitions_are_fused_one_by_one() -> None:
    app = Application("parallel")
    source = app.add_operator("source", Source(), partitions=2)
    follow = app.add_operator("follow", Follow())
    keep = app.add_operator("keep", Filter(), partition_parallel=True)
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, follow.payments)
    app.add_stream("valid", follow.valid, keep.data, locality="THREAD_LOCAL")
    app.add_stream("kept", keep.passed, store.input)
    assert stages(plan_application(app)) == [
        [["source[0]", "follow[0]", "keep[0]"], ["source[1]", "follow[1]", "keep[1]"]],
        [["keep.passed#unifier", "store"]],
    ]


def test_intermediate_unifiers_have_containers_of_their_own() -> None:
    app = in_a_row(
        Application("cascade"), source=(Source(), {"partitions": 5, "unifier_limit": 2}), store=Store()
    )
    unifiers = [f"source.payments#unifier[{n}]" for n in range(4)]
    assert stages(plan_application(app)) == [
        [[f"source[{n}]"] for n in range(5)],
        [[unifiers[0]], [unifiers[1]]],
        [[unifiers[2]]],
        [[unifiers[3], "store"]],
    ]


def test_equal_numbers_of_partitions_are_not_enough_to_fuse() -> None:
    app = in_a_row(
        Application("shuffle"),
        source=(Source(), {"partitions": 2}),
        balances=(Balances(), {"partitions": 2}),
        store=(Store(), {"partitions": 2}),
    )
    assert [len(stage) for stage in stages(plan_application(app))] == [2, 2, 2]


def test_separate_graphs_share_the_stages() -> None:
    app = Application("two")
    for name in ("one", "two"):
        source = app.add_operator(f"{name}_source", Source())
        balances = app.add_operator(f"{name}_balances", Balances(), partitions=2)
        store = app.add_operator(f"{name}_store", Store())
        app.add_stream(f"{name}_payments", source.payments, balances.payments)
        app.add_stream(f"{name}_balances", balances.balances, store.input)
    assert [len(stage) for stage in stages(plan_application(app))] == [2, 4, 2]
