"""Affinity rules: what they mean for containers, and where they contradict each other or localities."""

from typing import Any

import pytest

from ridgeline.api import AffinityRule, Application
from ridgeline.plan import describe, find_faults, plan_application
from support.plan.parts import Balances, Check, Source, Store


def chain(*rules: AffinityRule, localities: Any = None, **attributes: Any) -> Application:
    """Source -> check -> balances -> store, and rejected -> log."""
    app = Application("test")
    source = app.add_operator("source", Source())
    check = app.add_operator("check", Check())
    balances = app.add_operator("balances", Balances(), **attributes)
    store, log = app.add_operator("store", Store()), app.add_operator("log", Store())
    given = localities or {}
    app.add_stream("payments", source.payments, check.payments, locality=given.get("payments"))
    app.add_stream("valid", check.valid, balances.payments, locality=given.get("valid"))
    app.add_stream("balances", balances.balances, store.input, locality=given.get("balances"))
    app.add_stream("rejected", check.rejected, log.input, locality=given.get("rejected"))
    for rule in rules:
        app.add_affinity(rule)
    return app


def containers(app: Application) -> list[set[str]]:
    plan = plan_application(app)
    return [
        {plan.physical.operator(identity).title for identity in box.operators}
        for box in plan.execution.containers
    ]


@pytest.mark.guide("002", "Affinity Rules")
def test_operators_apart_share_no_container() -> None:
    assert containers(chain()) == [{"source", "check", "balances", "store", "log"}]
    apart = AffinityRule("ANTI_AFFINITY", ["check", "log"], locality="CONTAINER_LOCAL")
    assert containers(chain(apart)) == [{"source", "check", "balances", "store"}, {"log"}]
    on_hosts = AffinityRule("anti_affinity", ["source", "store", "log"])
    assert all(len(box & {"source", "store", "log"}) <= 1 for box in containers(chain(on_hosts)))


def test_operators_together_share_a_container_though_no_stream_joins_them() -> None:
    together = AffinityRule("AFFINITY", ["store", "log"], locality="CONTAINER_LOCAL")
    boxes = containers(chain(together, partitions=2))
    assert [box for box in boxes if "log" in box] == [{"balances.balances#unifier", "store", "log"}]


@pytest.mark.guide("002", "Specifying Affinity Rules")
def test_rules_name_operators_as_added_by_pattern_or_as_modules() -> None:
    app = chain()
    check, log = app.operators[1].operator, app.operators[4].operator
    app.add_affinity(AffinityRule("ANTI_AFFINITY", [check, log], locality="CONTAINER_LOCAL"))
    app.add_affinity(AffinityRule("AFFINITY", pattern="(store|bal.*)", locality="CONTAINER_LOCAL"))
    (first, second) = plan_application(app).logical.affinity
    assert (first.operators, second.operators) == (("check", "log"), ("balances", "store"))


def test_partitions_of_an_operator_are_spread() -> None:
    spread = AffinityRule("ANTI_AFFINITY", ["balances", "balances"])
    plan = plan_application(chain(spread, partitions=3))
    assert plan.logical.affinity[0].spread == ("balances",)
    text = "rule `affinity 1` (ANTI_AFFINITY NODE_LOCAL of `balances`, `balances`) is kept in slots"
    assert text in describe(plan)


CONTRADICTIONS: list[tuple[list[AffinityRule], dict[str, str], str]] = [
    (
        [
            AffinityRule("AFFINITY", ["source", "check", "log"]),
            AffinityRule("ANTI_AFFINITY", ["log", "source"]),
        ],
        {},
        "wants `log`, `source` apart, but `affinity 1` (AFFINITY NODE_LOCAL of `source`, `check`, `log`)",
    ),
    (
        [AffinityRule("ANTI_AFFINITY", ["source", "balances"])],
        {"payments": "NODE_LOCAL", "valid": "NODE_LOCAL"},
        "apart, but stream `payments` (NODE_LOCAL) and stream `valid` (NODE_LOCAL) puts them together; leave",
    ),
]


@pytest.mark.parametrize(("rules", "localities", "text"), CONTRADICTIONS)
def test_contradictions_name_the_rules(
    rules: list[AffinityRule], localities: dict[str, str], text: str
) -> None:
    (fault,) = find_faults(chain(*rules, localities=localities))
    assert text in str(fault)
    assert "leave one of them out, or give a rule `relax=True`" in str(fault)


@pytest.mark.guide("002", "Specifying Affinity Rules")
def test_operators_of_different_hosts_share_no_container() -> None:
    on_alpha = AffinityRule("AFFINITY", ["source", "check"], hosts=["alpha"])
    app = chain(on_alpha, locality_host="beta")
    assert [box & {"source", "check", "balances"} for box in containers(app)][:2] == [
        {"source", "check"},
        {"balances"},
    ]
    text = describe(plan_application(app))
    assert "rule `affinity 1` (AFFINITY NODE_LOCAL of `source`, `check` to host `alpha`) is kept" in text
    assert "rule `balances.locality_host` (AFFINITY NODE_LOCAL of `balances` to host `beta`) is kept" in text


HOSTLESS: list[tuple[list[AffinityRule], dict[str, Any], str]] = [
    (
        [AffinityRule("AFFINITY", ["balances"], hosts=["a"])],
        {"locality_host": "b"},
        "leave nowhere for `balances`",
    ),
    (
        [AffinityRule("AFFINITY", ["check", "balances"]), AffinityRule("AFFINITY", ["check"], hosts=["a"])],
        {"locality_host": "b"},
        "leave nowhere for `check`, `balances`",
    ),
    (
        [AffinityRule("ANTI_AFFINITY", ["log", "balances"]), AffinityRule("AFFINITY", ["log"], hosts=["b"])],
        {"locality_host": "b"},
        "leave too few places for `log`, `balances`",
    ),
    (
        [AffinityRule("AFFINITY", ["balances"], hosts=["r"], locality="RACK_LOCAL")],
        {"locality_rack": "s"},
        "leave nowhere",
    ),
]


@pytest.mark.parametrize(("rules", "attributes", "what"), HOSTLESS)
def test_hosts_that_contradict_are_faults(
    rules: list[AffinityRule], attributes: dict[str, Any], what: str
) -> None:
    (fault,) = find_faults(chain(*rules, **attributes))
    assert what in str(fault)
    assert "; leave one of them out, or name other hosts" in str(fault)


def test_an_attribute_wins_over_a_relaxed_rule_of_hosts() -> None:
    rule = AffinityRule("AFFINITY", ["balances"], hosts=["a"], relax=True)
    plan = plan_application(chain(rule, locality_host="b"))
    assert [kept.name for kept in plan.logical.affinity] == ["balances.locality_host"]
    assert "is not kept: `balances.locality_host` (AFFINITY" in describe(plan)


def test_a_relaxed_rule_that_cannot_be_kept_is_given_up_and_the_plan_says_so() -> None:
    rule = AffinityRule("ANTI_AFFINITY", ["check", "log"], locality="CONTAINER_LOCAL", relax=True)
    plan = plan_application(chain(rule, localities={"rejected": "THREAD_LOCAL"}))
    assert not plan.logical.affinity
    assert "is not kept: `affinity 1`" in describe(plan)


def test_faulty_rules_are_all_told_at_once() -> None:
    rules: list[Any] = [
        AffinityRule("AFINITY", ["source", "check"]),  # type: ignore[arg-type]
        AffinityRule("AFFINITY", ["source", "chek"]),
        AffinityRule("AFFINITY", ["source"]),
        AffinityRule("AFFINITY"),
        AffinityRule("AFFINITY", ["source", "check"], pattern=".*"),
        AffinityRule("AFFINITY", pattern="(unclosed"),
        AffinityRule("AFFINITY", pattern="nobody"),
        AffinityRule("AFFINITY", ["source", "check"], locality="HOST"),  # type: ignore[arg-type]
        AffinityRule("AFFINITY", ["balances", "balances"], locality="CONTAINER_LOCAL"),
        AffinityRule("AFFINITY", ["balances", "store"], locality="CONTAINER_LOCAL"),
        AffinityRule("AFFINITY", ["source"], hosts=["a", 5]),  # type: ignore[list-item]
        AffinityRule("AFFINITY", ["source"], hosts=["a"], locality="CONTAINER_LOCAL"),
        "together",
    ]
    faults = find_faults(chain(*rules, partitions=2))
    assert {fault.where for fault in faults} == {f"affinity {number}" for number in range(1, 14)}
    assert len(faults) == 13
    assert "did you mean `check`?" in str(faults[1])


def test_a_pattern_that_backtracks_does_not_hang() -> None:
    app = chain(AffinityRule("AFFINITY", pattern="(a+)+b", relax=True))
    app.add_operator("a" * 150, Source())
    find_faults(app)  # in hours, by an engine that backtracks
