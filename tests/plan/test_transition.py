"""From one plan to the next: what is said of it, when it may begin, and which states move."""

from typing import Any

import pytest

from ridgeline.api import Application, OutputPort, State, ValidationError
from ridgeline.api.partitioner import assign_keys
from ridgeline.plan import Plan, plan_application
from ridgeline.plan.change.state_moves import (
    StateMove,
    StatePlan,
    check_boundary,
    check_dropped,
    plan_states,
    staying,
)
from ridgeline.plan.change.succession import can_retain, changed_properties, succeed
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    Edit,
    RemoveOperator,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.transition import Transition, transition
from support.plan.module_parts import Totals, around
from support.plan.parts import Balance, Balances, MergeBalances, Source, Store, payments_app
from support.rows import in_a_row

STORE = {"class": "support.plan.parts.Store"}


def change(app: Application, *edits: Edit) -> Transition:
    return transition(plan_application(app), plan_application(app, edits=edits), edits)


def refused(app: Application, *edits: Edit) -> list[str]:
    with pytest.raises(ValidationError) as error:
        change(app, *edits)
    return [str(fault) for fault in error.value.faults]


def keys(plan: Plan) -> list[str]:
    return [one.state_key for one in plan.physical.operators]


def test_what_a_change_does_in_lines() -> None:
    found = change(
        payments_app(),
        Repartition("balances", 2),
        SetProperty("source", "count", 20),
        SetAttribute("check", "error_tuples_kept", 512),
        AddOperator("audit", STORE),
        AddSink("payments", "audit.input"),
        RemoveOperator("rejected_store"),
        RenameOperator("top_store", "tops"),
    ).difference
    assert list(found.lines) == [
        "plan version 0 -> 1, with any window",
        "  + operator audit",
        "  - operator rejected_store, and its state",
        "  * operator top_store is called tops",
        "  * balances: 3 -> 2 partitions",
        "  * property source.count: 10 -> 20",
        "  * attribute check.error_tuples_kept: 0 -> 512",
        "  - stream rejected",
        "  + sink of payments: audit.input",
        "  > state of balances: 3 partitions -> 2",
        "  > state of tops: that of top_store/0/1",
        "  ! instances made anew, over the same state: 1",
        "  containers: 3 start, 3 stop, 7 change, 0 go on as they are",
    ]


def test_nothing_changes() -> None:
    found = change(payments_app(), SetProperty("source", "count", 10))
    assert list(found.difference.lines[1:]) == [
        "  nothing changes",
        "  containers: 0 start, 0 stop, 0 change, 10 go on as they are",
    ]


def test_secrets_are_not_shown() -> None:
    class Secret(Store):
        password: str = "old-one"

    app = in_a_row(Application("secret"), source=Source(), store=Secret())
    found = change(app, SetProperty("store", "password", "new-one")).difference
    text = str(found)
    assert "store.password" in text
    assert "old-one" not in text
    assert "new-one" not in text


def test_living_instances_go_on_with_other_properties_only() -> None:
    app = payments_app()
    old = plan_application(app)
    edits: list[Edit] = [SetProperty("source", "count", 3), SetAttribute("check", "error_tuples_kept", 9)]
    found = transition(old, plan_application(app, edits=edits), edits)
    new = {one.title: one for one in found.plan.physical.operators}
    before = {one.title: one for one in old.physical.operators}
    assert {name: one.id for name, one in new.items()} == {name: one.id for name, one in before.items()}
    assert changed_properties(before["source[1]"], new["source[1]"]) == {"count": 3}
    assert can_retain(before["source[1]"], new["source[1]"])
    assert not can_retain(before["check"], new["check"])
    own = {old.execution.homes[before[one].id] for one in ("source[0]", "source[1]", "check")}
    assert found.difference.lines[-2:] == (
        "  ! instances made anew, over the same state: 1",
        f"  containers: 0 start, 0 stop, {len(own)} change, {10 - len(own)} go on as they are",
    )


def test_a_change_waits_for_the_ends_of_what_it_touches() -> None:
    app = payments_app()  # `top` has application windows of 5
    app.operators[3].attributes["application_window_count"] = 1
    app.set_attribute(app.operators[1].operator, application_window_count=3)
    assert change(app, SetProperty("top_store", "path", "x")).aligned == 1
    assert change(app, SetAttribute("check", "error_tuples_kept", 3)).aligned == 1
    assert change(app, Repartition("check", 2)).aligned == 3
    top: Any = {"class": "support.plan.parts.TopBalances"}
    app = payments_app()
    assert change(app, Repartition("top", 3)).aligned == 5
    assert change(app, Repartition("balances", 2)).aligned == 1
    assert change(app, SetAttribute("top", "application_window_count", 4)).aligned == 20
    assert change(app, ReplaceOperator("top", top)).aligned == 1
    assert (
        change(app, Repartition("top", 3), SetAttribute("check", "application_window_count", 7)).aligned == 35
    )


def test_states_stay_move_and_end() -> None:
    found = change(payments_app(), Repartition("balances", 2), RemoveOperator("rejected_store"))
    ids = {one.title: one.id for one in found.plan.physical.operators}
    assert found.states.moves == (
        StateMove(
            "balances",
            "",
            ("balances/0/3", "balances/1/3", "balances/2/3"),
            (ids["balances[0]"], ids["balances[1]"]),
            tuple(assign_keys(3)),
        ),
    )
    assert found.states.ends == ("rejected_store/0/1",)
    assert found.states.stays["top/1/2"] == ids["top[1]"]


def test_the_same_partitions_with_other_keys_are_divided_anew() -> None:
    other = {"class": "support.plan.other_partitioner.Backwards"}
    found = change(payments_app(), Repartition("balances", 3, other))
    (move,) = found.states.moves
    assert (move.operator, len(move.sources), len(move.targets)) == ("balances", 3, 3)
    assert not any(key.startswith("balances/") for key in found.states.stays)
    assert not any("partitions" in line for line in found.difference.lines if not line.startswith("  >"))
    held = keys(plan_application(payments_app()))
    assert "balances/0/3" in plan_states(held, found.plan).stays  # a restart cannot see it


def test_what_only_unifiers_have_within_an_application_window_ends() -> None:
    found = change(payments_app(), Repartition("top", 3))
    assert found.states.gathered == ("balances",)
    assert found.states.ends == tuple(f"balances.balances/{number}/3" for number in range(3))
    ids = {one.title: one.id for one in found.plan.physical.operators}
    assert found.states.stays["top.top/0/1"] == ids["top.top#unifier"]


class Keeping(MergeBalances):
    """Keeps something for good."""

    seen = State(0)


class Kept(Balances):
    balances = OutputPort(Balance, unifier=Keeping)


def test_a_unifier_that_keeps_state_for_good_refuses_to_go() -> None:
    app = in_a_row(Application("kept"), source=Source(), sums=(Kept(), {"partitions": 2}), store=Store())
    (fault,) = refused(app, Repartition("sums", 1))
    assert "`sums.balances`: its unifier keeps `seen` for longer than an application window" in fault
    assert change(app, Repartition("sums", 3)).aligned == 1


def sliding(partitions: int = 2, slide: int = 2) -> Application:
    return in_a_row(
        Application("slides"),
        source=Source(),
        balances=(
            Balances(),
            {"partitions": partitions, "application_window_count": 6, "slide_by_window_count": slide},
        ),
        store=Store(),
    )


def test_what_slides_is_not_divided() -> None:
    for edit in (Repartition("balances", 3), SetAttribute("balances", "slide_by_window_count", 3)):
        found = refused(sliding(), edit)
        assert found
        assert all(
            "it slides, and what it keeps of its slides cannot be divided anew" in one for one in found
        )
    old = plan_application(sliding())
    slider = "balances.balances#slider of 6 windows by 2"
    assert f"{slider}/1/2" in keys(old)
    with pytest.raises(ValidationError, match=r"--drop-state balances\.balances"):
        plan_states(keys(old), plan_application(sliding(3)))
    found_plan = plan_states(keys(old), plan_application(sliding(3)), dropped=["balances.balances"])
    assert {f"{slider}/0/2", f"{slider}/1/2"} <= set(found_plan.ends)
    assert [move.operator for move in found_plan.moves] == ["balances"]


def test_states_of_another_version_of_an_application() -> None:
    """As at a restart: only the keys are known."""
    old = plan_application(around(Totals()))
    new = plan_application(around(Totals()), edits=[Repartition("m.balances", 2), RemoveOperator("m.log")])
    with pytest.raises(ValidationError, match=r"no operator `m.log` any more, but .* `--drop-state m.log`"):
        plan_states(keys(old), new)
    found = plan_states(keys(old), new, dropped=["m.log"])
    assert [(move.operator, move.sources) for move in found.moves] == [("m.balances", ("m.balances/0/1",))]
    assert found.ends == ("m.log/0/1",)
    none = plan_states(keys(old), new, dropped=["m"])
    assert not none.moves
    assert set(none.ends) == {key for key in keys(old) if key.startswith("m.")}
    with pytest.raises(ValidationError, match=r"`m\.log` is to be called `x`, but"):
        plan_states(keys(old), new, renamed={"m.log": "x"})
    with pytest.raises(ValidationError, match=r"both `m\.balances` and `m\.log` have state"):
        plan_states(keys(old), new, renamed={"m.log": "m.balances"})
    check_dropped(["m", "m.log", "source", "source.payments"], keys(old), (), old)
    for name in ("m.lgo", "source.x"):
        with pytest.raises(
            ValidationError, match=f"`{name}`: its state is to be dropped, but .*did you mean"
        ):
            check_dropped([name], keys(old), (), old)
    assert plan_states(keys(old), old) == StatePlan(staying(old).stays)


def test_names_may_be_swapped_at_a_restart() -> None:
    plan = plan_application(payments_app())
    swapped = {"balance_store": "top_store", "top_store": "balance_store"}
    found = plan_states(keys(plan), plan, renamed=swapped)
    ids = {one.title: one.id for one in plan.physical.operators}
    assert set(found.moves) == {
        StateMove("top_store", "", ("balance_store/0/1",), (ids["top_store"],)),
        StateMove("balance_store", "", ("top_store/0/1",), (ids["balance_store"],)),
    }


def test_a_restart_begins_where_application_windows_have_ended() -> None:
    old = plan_application(payments_app())
    new = plan_application(payments_app(), edits=[Repartition("top", 3)])
    found = plan_states(keys(old), new)
    with pytest.raises(ValidationError, match="its application window of 5 windows is open at window 7"):
        check_boundary(found, new, 7)
    check_boundary(found, new, 10)
    check_boundary(plan_states(keys(old), old), old, 7)


def test_what_had_a_container_of_its_own_is_not_fused_again() -> None:
    def containers(plan: Plan) -> list[list[str]]:
        titles = {one.id: one.name for one in plan.physical.operators if not one.unifier}
        found = [[titles[one] for one in box.operators if one in titles] for box in plan.execution.containers]
        return [box for box in found if "check" in box or "source" in box]

    app, one = payments_app(), Repartition("source", 1)
    first = plan_application(app, edits=[one])
    apart = succeed(first, plan_application(app, edits=[one, Repartition("check", 2)]))
    again = succeed(apart, plan_application(app, edits=[one, Repartition("check", 1)]))
    assert containers(first) == [["source", "check", "rejected_store"]]
    assert containers(apart) == [["source"], ["check"], ["check"]]
    assert containers(again) == [["source"], ["check"]]


def test_ids_are_not_used_again() -> None:
    app = payments_app()
    plan = plan_application(app)
    seen = {one.id for one in plan.physical.operators}
    for count in (2, 3, 2, 3):
        following = succeed(plan, plan_application(app, edits=[Repartition("balances", count)]))
        fresh = {one.id for one in following.physical.operators} - {one.id for one in plan.physical.operators}
        assert not fresh & seen
        seen |= fresh
        plan = following
    assert plan.version == 4


def test_what_counts_from_the_start_of_a_run_is_refused() -> None:
    edits = [SetAttribute("", "window", "1s"), SetAttribute("", "heartbeat_interval", "3s")]
    assert refused(payments_app(), *edits, SetAttribute("", "windows_in_flight", 2)) == [
        f"`{name}`: it counts from the start of a run, and cannot be changed while it runs; "
        f"start the application anew with `--attribute {name}=...`"
        for name in ("window", "heartbeat_interval")
    ]
    found = change(payments_app(), SetAttribute("", "windows_in_flight", 2))
    assert [one for one in found.difference.lines if "attribute" in one] == [
        "  * attribute windows_in_flight: 4 -> 2"
    ]


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (SetAttribute("check", "memory_mb", 512), "`check.memory_mb`: its slots got"),
        (SetAttribute("check", "locality_host", "alpha"), "`check.locality_host`: its slots got"),
        (SetAttribute("", "containers_max_count", 2), "`containers_max_count`: it counts from the start of"),
    ],
)
def test_what_slots_have_from_their_start_is_not_changed(edit: Edit, what: str) -> None:
    (fault,) = refused(payments_app(), edit)
    assert fault.startswith(what)
    assert "start the application anew with `--attribute" in fault
