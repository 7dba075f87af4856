"""Edits of applications, one by one: what they make, and the faults of those that cannot be made."""

from typing import Any

import pytest

from ridgeline.api import (
    AffinityRule,
    Application,
    InputPort,
    Operator,
    OutputPort,
    ValidationError,
)
from ridgeline.operators import Delay, FileOutput, Filter, Map
from ridgeline.plan import LogicalPlan, validate
from ridgeline.plan.change.verbs import VERBS
from ridgeline.plan.edits import (
    EDITS,
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.spec.writer import spec_of_operator
from support.plan.faulty import are
from support.plan.module_parts import Checked, Totals, around
from support.plan.parts import Filter as Pass
from support.plan.parts import Payment, Source, Store, payments_app
from support.rows import in_a_row

PARTS = "support.plan.parts"
STORE = {"class": f"{PARTS}.Store"}


def plan(app: Application, *edits: Edit, **given: Any) -> LogicalPlan:
    return validate(app, edits=edits, **given)


def faults(app: Application, *edits: Edit) -> list[str]:
    with pytest.raises(ValidationError) as error:
        validate(app, edits=edits)
    return [str(fault) for fault in error.value.faults]


def sinks(found: LogicalPlan, stream: str) -> list[str]:
    return [str(sink) for one in found.streams if one.name == stream for sink in one.sinks]


# Values -----------------------------------------------------------------------------------------------------


def test_a_partitioner_is_made_of_its_class_and_arguments() -> None:
    sticky = {"class": "ridgeline.StickyPartitioner", "arguments": ["payments"]}
    found = plan(payments_app(), Repartition("balances", 2, sticky))
    made = found.operator("balances").attributes["partitioner"]
    assert repr(made) == "StickyPartitioner(ports=('payments',))"
    for spec, text in [
        ({"class": "ridgeline.StickyPartitioner", "ports": 1}, "is an object with `class` and `properties`"),
        ({"class": f"{PARTS}.Store"}, "is no `Partitioner`"),
        ({"class": "nowhere.Partitioner"}, "there is no module `nowhere`"),
        ({"class": "ridgeline.Partitioner"}, "cannot be made of its properties"),
    ]:
        (fault,) = faults(payments_app(), Repartition("balances", 2, spec))
        assert text in fault
    assert "neither `partitions` nor `partitioner`" in faults(payments_app(), Repartition("balances"))[0]
    assert "must be at least 1" in faults(payments_app(), Repartition("balances", 0))[0]


def test_options_count_more_than_kept_edits_and_less_than_those_of_the_run() -> None:
    given: Any = {"attributes": {"balances.partitions": 4}, "properties": {"source.count": 4}}
    kept = [Repartition("balances", 2), SetProperty("source", "count", 2), RenameOperator("source", "start")]
    found = validate(payments_app(), kept=kept, **given)
    assert len(found.operator("balances").divided) == 4
    assert found.operator("start").operator.count == 4  # type: ignore[attr-defined]
    edits = [Repartition("balances", 5), SetProperty("start", "count", 5)]
    found = validate(payments_app(), kept=kept, edits=edits, **given)
    assert len(found.operator("balances").divided) == 5
    assert found.operator("start").operator.count == 5  # type: ignore[attr-defined]


def test_options_may_name_what_only_edits_make_and_what_they_take_away() -> None:
    edits = [
        AddOperator("audit", STORE),
        AddSink("payments", "audit.input"),
        RemoveOperator("rejected_store"),
    ]
    given: Any = {"properties": {"audit.path": "x", "rejected_store.path": "y"}}
    for way in ("edits", "kept"):
        found = validate(payments_app(), **{way: edits}, **given)
        assert found.operator("audit").operator.path == "x"  # type: ignore[attr-defined]
    with pytest.raises(ValidationError, match="there is no operator `audti` to set a property of"):
        validate(payments_app(), edits=edits, properties={"audti.path": "x"})


# Operators --------------------------------------------------------------------------------------------------


def test_names_that_are_taken_or_cannot_be() -> None:
    found = faults(
        payments_app(),
        AddOperator("check", STORE),
        AddOperator("a.b", STORE),
        AddOperator("what?", STORE),
        AddOperator("", STORE),
        RenameOperator("source", "check"),
        RenameOperator("top", "t.p"),
    )
    assert [one.partition(":")[0] for one in found[:6]] == [
        "`check`", "`a.b`", "`what?`", "`operator`", "`check`", "`t.p`",
    ]  # fmt: skip
    found = faults(around(Checked()), AddOperator("m", STORE), RenameOperator("source", "m"))
    assert found[:2] == ["`m`: there is a module `m` already; give another name"] * 2


def test_an_operator_that_cannot_be_made_is_one_fault() -> None:
    for spec, text in [
        ({}, "`x.class`: `class` is missing"),
        ({"class": "nowhere.X"}, "`x.class`: there is no module `nowhere`"),
        ({**STORE, "ports": {"inptu": {"memory_mb": 3}}}, "has no port `inptu`; did you mean `input`?"),
        ({**STORE, "properties": {"path": {"$env": "NO_SUCH"}}}, "is not in the environment"),
    ]:
        (fault,) = faults(payments_app(), AddOperator("x", spec), AddSink("payments", "x.input"))
        assert text in fault
    (fault,) = faults(
        payments_app(),
        AddOperator("x", {**STORE, "properties": {"pth": "a"}}),
        AddSink("payments", "x.input"),
    )
    assert "`Store` has no property `pth`; did you mean `path`?" in fault


def test_conflicting_edits_are_faults_and_all_of_them_at_once() -> None:
    found = faults(
        payments_app(),
        RemoveOperator("top"),
        SetProperty("top", "x", 1),
        RemoveOperator("top"),
        RemoveStream("top"),
        AddSink("top", "top_store.input"),
        Repartition("tpo", 2),
    )
    assert len([one for one in found if "there is no operator `top`" in one]) == 2
    assert len([one for one in found if "there is no stream `top`" in one]) == 2
    assert any("there is no operator `tpo`" in one for one in found)
    assert any("`top_store.input`: the input port is not connected" in one for one in found)


def test_what_is_said_of_an_operator_goes_with_its_name() -> None:
    app = payments_app()
    app.add_affinity(AffinityRule("ANTI_AFFINITY", ["check", "balances"], relax=True))
    app.set_attribute(app.operators[1].operator, memory_mb=77)
    found = plan(
        app, RenameOperator("check", "x"), RenameOperator("x", "y"), RenameOperator("balances", "check"),
        properties={"top_store.path": "p"}, attributes={"check.vcores": 2, "balances.vcores": 3},
    )  # fmt: skip
    assert found.operator("y").attributes["memory_mb"] == 77
    assert (found.operator("y").attributes["vcores"], found.operator("check").attributes["vcores"]) == (2, 3)
    assert [rule.operators for rule in found.affinity] == [("y", "check")]


def test_rules_lose_what_is_removed_and_go_with_it() -> None:
    app = payments_app()
    check = app.operators[1].operator
    stores: list[Any] = ["balance_store", "rejected_store", "top_store"]
    app.add_affinity(AffinityRule("ANTI_AFFINITY", stores, locality="CONTAINER_LOCAL"))
    app.add_affinity(AffinityRule("ANTI_AFFINITY", [check, "rejected_store"], locality="CONTAINER_LOCAL"))
    app.add_affinity(AffinityRule("AFFINITY", ["rejected_store"], hosts=["alpha"]))
    app.add_affinity(AffinityRule("AFFINITY", pattern=".*_store", relax=True))
    found = plan(app, RemoveOperator("rejected_store"))
    assert {rule.operators for rule in (*found.affinity, *(rule for rule, _ in found.given_up))} == {
        ("balance_store", "top_store"),
    }
    replaced = plan(app, ReplaceOperator("check", {"class": f"{PARTS}.Check"}))
    assert ("check", "rejected_store") in {rule.operators for rule in replaced.affinity}


def test_a_replaced_operator_keeps_streams_and_attributes_but_not_properties() -> None:
    app = payments_app()
    found = plan(
        app,
        SetProperty("top_store", "path", "old"),
        SetAttribute("top_store", "memory_mb", 99),
        ReplaceOperator("top_store", {**STORE, "attributes": {"vcores": 2}}),
        properties={"top_store.path": "older"},
    )
    store = found.operator("top_store")
    assert store.operator.path == "store"  # type: ignore[attr-defined]
    assert (store.attributes["memory_mb"], store.attributes["vcores"]) == (99, 2)
    assert sinks(found, "top") == ["top_store.input"]
    found_faults = faults(app, ReplaceOperator("check", STORE))
    lost = [one for one in found_faults if "has no port" in one]
    assert [one.partition(":")[0] for one in lost] == [
        "`check.payments`",
        "`check.valid`",
        "`check.rejected`",
    ]


# Streams ----------------------------------------------------------------------------------------------------


def test_ends_that_are_none() -> None:
    found = faults(
        payments_app(),
        AddStream("x", "check", ("top_store.input",)),
        AddStream("y", "check.valid", ("audit.input",)),
        AddStream("z", "check.payments", ("check.valid",)),
        AddStream("payments", "check.valid", ("top_store.input",)),
        AddStream("v", "check.valid", ("top_store.input",)),
        AddSink("payments", "check.paymnets"),
        RemoveSink("payments", "top_store.input"),
        RemoveSink("rejected_store_dead_letters", "top_store.input"),
    )
    names = "`balance_store`, `balances`, `check`, `rejected_store`, `source`, `top`, `top_store`"
    name = "rejected_store_dead_letters"
    assert found == [
        "`x`: `check` names no port; write `operator.port`",
        f"`y`: there is no operator `audit`; known are {names}",
        "`z`: `payments` of `Check` is no output port; a stream leads from an output port to input ports",
        "`z`: `valid` of `Check` is no input port; a stream leads from an output port to input ports",
        "`payments`: there is a stream `payments` already; give another name, or add sinks to that stream",
        "`v`: stream `valid` begins at `check.valid` already; add the sinks to `valid`",
        "`payments`: `Check` has no input port `paymnets`; did you mean `payments`?",
        "`payments`: `top_store.input` is no sink of stream `payments`; its sinks are `check.payments`",
        f"`{name}`: there is no stream `{name}`; add a stream from `rejected_store.dead_letters`",
    ]


def test_persisted_streams_lose_what_writes_them_down_or_go() -> None:
    app = Application("kept")
    source, store = app.add_operator("source", Source()), app.add_operator("store", Store())
    app.add_stream("all", source.payments, store.input, persist=FileOutput("all"))
    found = plan(app, RemoveOperator("all_persisted"))
    assert sinks(found, "all") == ["store.input"]
    assert found.streams[0].persisted == ()
    found = plan(app, RemoveOperator("store"))
    assert sinks(found, "all") == ["all_persisted.input"]
    assert list(map(str, found.streams[0].persisted)) == ["all_persisted.input"]
    found = plan(app, SetProperty("all_persisted", "path", "elsewhere"))
    assert list(map(str, found.streams[0].persisted)) == ["all_persisted.input"]


def skipping() -> Application:
    app = in_a_row(Application("skip"), source=Source(), check=(Pass(), {"on_error": "SKIP"}), store=Store())
    app.dead_letters(FileOutput("letters"))
    return app


def test_dead_letters_follow_the_operators_that_leave_tuples_out() -> None:
    app = skipping()
    second = {"class": f"{PARTS}.Filter", "attributes": {"on_error": "SKIP"}}
    edits: list[Edit] = [
        AddOperator("second", second),
        AddSink("source", "second.data"),
        AddOperator("more", STORE),
        AddStream("more", "second.passed", ("more.input",)),
        RenameOperator("check", "verify"),
    ]
    found = plan(app, *edits)
    assert {one.name for one in found.streams} >= {"second_dead_letters", "verify_dead_letters"}
    own = AddStream("own", "verify.dead_letters", ("spare.input",))
    found = plan(app, *edits, AddOperator("spare", STORE), own)
    assert "verify_dead_letters" not in {one.name for one in found.streams}
    assert sinks(found, "own") == ["spare.input"]
    found = plan(app, RemoveOperator("dead_letters"))
    assert {one.name for one in found.streams} == {"source", "check"}
    (fault,) = faults(app, SetAttribute("check", "on_error", "STOP"))
    assert "no operator leaves tuples out, so there are no dead letters" in fault
    found = plan(app, ReplaceOperator("dead_letters", STORE))
    assert sinks(found, "check_dead_letters") == ["dead_letters.input"]


# Modules and loops ------------------------------------------------------------------------------------------


def test_what_is_inside_of_a_module() -> None:
    app = around(Totals())
    found = plan(
        app,
        SetProperty("m.log", "path", "x"),
        Repartition("m.balances", 3),
        AddOperator("audit", STORE),
        AddSink("m.valid", "audit.input"),
        AddOperator("more", STORE),
        AddStream("rejected", "m.checked.check.rejected", ("more.input",)),
        RemoveOperator("m.log"),
    )
    assert len(found.operator("m.balances").divided) == 3
    assert sinks(found, "m.valid") == ["m.balances.payments", "audit.input"]
    assert sinks(found, "in") == ["m.checked.check.payments"]
    (outer, _) = found.modules
    assert [str(end) for end in (outer.ends or {})["payments"]] == ["m.checked.check.payments"]


def test_ports_of_modules_are_ends() -> None:
    app = around(Totals())
    edits: list[Edit] = [
        AddOperator("other", {"class": f"{PARTS}.Source"}),
        RemoveStream("in"),
        RemoveOperator("source"),
        AddStream("again", "other.payments", ("m.payments",)),
        AddOperator("audit", STORE),
        AddSink("out", "audit.input"),
    ]
    found = plan(app, *edits)
    assert sinks(found, "again") == ["m.checked.check.payments", "m.log.input"]
    assert sinks(found, "out") == ["store.input", "audit.input"]
    unfed = faults(app, RemoveStream("in"))
    assert any("`m.checked.check.payments`: the input port is not connected" in one for one in unfed)
    assert any("`m.log.input`: the input port is not connected" in one for one in unfed)
    found = plan(app, RemoveStream("out"), AddStream("anew", "m.balances", ("store.input",)))
    assert sinks(found, "anew") == ["store.input"]


def test_an_attribute_of_a_port_of_a_module_is_that_of_ports_inside() -> None:
    app = around(Totals())
    found = plan(app, SetAttribute("m", "queue_capacity", 7, "payments"))
    assert found.operator("m.log").ports["input"]["queue_capacity"] == 7
    assert faults(app, SetAttribute("m", "queue_capacity", 7, "payment")) == [
        "`m.port.payment`: module `m` has no port `payment` to set an attribute of; did you mean `payments`?"
    ]


def test_modules_are_removed_whole_and_their_names_are_their_own() -> None:
    app = around(Checked())
    found = plan(app, RemoveOperator("m"), AddStream("all", "source.payments", ("store.input",)))
    assert [one.name for one in found.operators] == ["source", "store"]
    assert found.modules == ()
    assert are(
        faults(app, RenameOperator("m", "n")),
        ["`m`: it is a module, whose names are its own; ... name where the module is written"],
    )
    assert "it is inside of module `m`" in faults(app, RenameOperator("m.check", "x"))[0]
    assert faults(app, ReplaceOperator("m", STORE)) == ["`m`: `m` is a module; name an operator inside of it"]
    found = plan(app, SetAttribute("m", "recovery_attempts", 9))
    assert found.operator("m.check").attributes["recovery_attempts"] == 9
    assert "name an operator inside of it" in faults(app, SetProperty("m", "filters", 3))[0]
    assert "must be at least 1" in faults(app, Repartition("m", 0))[0]


class Step(Operator):
    first = InputPort(Payment)
    again = InputPort(Payment)
    out = OutputPort(Payment)

    @first.process
    @again.process
    def go(self, payment: Payment) -> None: ...


def loop() -> Application:
    app = Application("loop")
    source = app.add_operator("source", Source())
    step = app.add_operator("step", Step())
    delay = app.add_module("delay", Delay(Payment))
    app.add_stream("start", source.payments, step.first)
    app.add_stream("back", step.out, delay.input)
    app.add_stream("again", delay.output, step.again)
    return app


def test_ends_of_a_delay_are_one() -> None:
    app = loop()
    for edit in (RemoveOperator("delay.head"), ReplaceOperator("delay.tail", STORE)):
        (fault,) = [one for one in faults(app, edit) if "delay" in one]
        assert "it is an end of the delay `delay`; name `delay`, both ends at once" in fault
    found = plan(app, Repartition("delay", 2))
    assert {len(one.divided) for one in found.operators if one.name.startswith("delay")} == {2}
    (fault,) = faults(app, Repartition("delay.head", 2))
    assert "has 1 partition," in fault
    found = plan(
        app, RemoveOperator("delay"), RemoveOperator("step"), AddOperator("store", STORE),
        AddStream("all", "source.payments", ("store.input",)),
    )  # fmt: skip
    assert {one.name for one in found.operators} == {"source", "store"}


# Specifications of operators --------------------------------------------------------------------------------


def test_an_operator_as_an_edit_writes_it() -> None:
    spec = spec_of_operator("store", Store(path="x"), {"partitions": 2})
    assert spec == {
        "class": f"{PARTS}.Store",
        "properties": {"path": "x"},
        "attributes": {"partitions": 2},
    }

    class Inside(Store):
        pass

    for operator, text in [
        (Inside(), "its class `Inside` cannot be imported by name; define it at the top of a module"),
        (Filter(lambda _: True), "a lambda has no import path"),
        (Map(abs, schema=object), ""),
    ]:
        if text:
            with pytest.raises(ValidationError, match=text):
                spec_of_operator("x", operator)
        else:
            assert spec_of_operator("x", operator)["class"] == "ridgeline.operators.Map"


def test_edits_leave_the_application_as_it_was() -> None:
    app = payments_app()
    operators, streams = list(app.operators), [(one.name, one.source, one.sinks) for one in app.streams]
    found = plan(
        app,
        SetProperty("source", "count", 3),
        SetAttribute("", "window", "1s"),
        SetAttribute("top", "memory_mb", 4, port="top", unifier=True),
        AddOperator("audit", STORE),
        AddSink("payments", "audit.input"),
    )
    assert app.operators == operators
    assert [(one.name, one.source, one.sinks) for one in app.streams] == streams
    assert app.window == "200ms"
    assert app.operators[0].operator.count == 10
    assert found.window_seconds == 1.0
    assert found.operator("source").operator.count == 3  # type: ignore[attr-defined]
    assert found.operator("top").unifiers["top"]["memory_mb"] == 4


def test_every_kind_can_be_asked_for_in_words_of_its_own():
    words = [verb.words.replace("[", "").replace("]", "").split() for verb in VERBS.values()]
    made = [verb.edit(*("1" for _ in of)) for verb, of in zip(VERBS.values(), words, strict=True)]
    assert {type(edit) for edit in made} == set(EDITS.values())
