"""What does not fit together is refused where it is added, at the author's line."""

from collections.abc import Callable
from typing import Any

import pytest

from ridgeline.api import Application, DeadLetter
from ridgeline.api.errors import StructureError
from ridgeline.operators import FileOutput, Filter
from ridgeline.sla import latency
from ridgeline.testing import CollectorSink
from support.plan.module_parts import Checked
from support.plan.parts import Balances, Check, Source, Store


class Parts:
    """Operators that were added, and a module."""

    def __init__(self) -> None:
        self.app: Any = Application("test")
        self.source: Any = self.app.add_operator("source", Source())
        self.check: Any = self.app.add_operator("check", Check())
        self.store: Any = self.app.add_operator("store", Store())
        self.module: Any = self.app.add_module("m", Checked())
        self.app.add_stream("payments", self.source.payments, self.check.payments)

    def stream(self, *ends: Any, **options: Any) -> None:
        self.app.add_stream("valid", *ends, **options)


CASES: list[tuple[Callable[[Parts], object], str]] = [
    (lambda to: to.app.add_operator("", Source()), "the name of the operator is empty; give it a name"),
    (lambda to: to.app.add_operator(7, Source()), "the name of the operator is 7, which is no text"),
    (lambda to: to.app.add_operator("a.b", Source()), "`a.b` has '.' in it; use letters"),
    (lambda to: to.app.add_operator("a" * 200, Source()), "has 200 characters; use at most 150"),
    (lambda to: to.app.add_operator("a", Check), "the class `Check` .*; add an instance: `Check"),
    (lambda to: to.app.add_operator("a", None), "None was added as `a`, which is no operator"),
    (lambda to: to.app.add_operator("a", Checked()), "the module `Checked` .*; add it with `add_module`"),
    (lambda to: to.app.add_operator("store", Store()), "there is an operator `store` already; give each"),
    (lambda to: to.app.add_operator("m", Store()), "there is a module `m` already; give each"),
    (lambda to: to.app.add_operator("a", to.store), "the same `Store` is added twice, as `store` and `a`"),
    (lambda to: to.app.add_module("a", Checked), "the class `Checked` .*, not a module; add an instance"),
    (lambda to: to.app.add_module("a", Check()), "the operator `Check` .*; add it with `add_operator`"),
    (lambda to: to.app.add_module("a", 3), "3 was added as `a`, which is no module"),
    (lambda to: to.app.add_module("a", to.module), "the same `Checked` is added twice, as `m` and `a`"),
    (lambda to: to.app.add_stream("payments", to.check.valid, to.store.input), "a stream `payments` already"),
    (lambda to: to.app.add_stream(" ", to.check.valid, to.store.input), "the name of the stream is empty"),
    (lambda to: to.stream(to.check.valid), "the stream has no sinks; name one or more"),
    (
        lambda to: to.stream(Check().valid, to.store.input),
        "a `Check` that was not added; did you mean",
    ),
    (
        lambda to: to.stream(to.check.valid, Checked().payments),
        "a `Checked` that was not added; add it",
    ),
    (lambda to: to.stream(to.check, to.store.input), "is a `Check`, not .*; name the port: `valid`"),
    (lambda to: to.stream(to.check.valid, to.module), "is a `Checked`, not .*; name the port: `payments`"),
    (lambda to: to.stream(Check.valid, to.store.input), "`valid` of a class, .* `add_operator` returned"),
    (lambda to: to.stream(to.check.valid, [to.store.input]), "no port; give the ports one by one"),
    (lambda to: to.stream(to.check.valid, "store.input"), "'store.input', which is no port; name a port"),
    (
        lambda to: to.stream(to.store.input, to.check.valid),
        "is `input`, an input port of a `Store`",
    ),
    (lambda to: to.stream(to.check.payments, to.store.input), "`payments`, an input port of a `Check`"),
    (lambda to: to.stream(to.check.valid, to.module.valid), "`valid`, an output port of .*connect"),
    (lambda to: to.stream(to.check.valid, to.store.input, to.store.input), "`input` is a sink .* twice"),
    (lambda to: to.stream(to.check.valid, to.store.input, locality={5: 1}), "locality is given for 5, which"),
    (lambda to: to.stream(to.check.valid, to.store.input, persist=5), "is 5, which takes no tuples; give an"),
    (lambda to: to.stream(to.check.valid, to.store.input, persist=FileOutput), "which takes no tuples"),
    (lambda to: to.stream(to.check.valid, to.store.input, persist=Filter(bool)), "port `output` would lead"),
    (lambda to: to.stream(to.check.valid, to.store.input, decoupled="yes"), "is 'yes'; give True"),
    (lambda to: to.stream(to.check.valid, to.store.input, decoupled={5}), "`decoupled` names 5, which is"),
    (lambda to: to.app.dead_letters(Balances()), "whose output port `balances` would lead nowhere"),
    (lambda to: to.app.set_attribute("paymnts", locality=1), "'paymnts', which is no operator, port"),
    (lambda to: to.app.set_attribute(to.app, partitions=1), "give attributes of the application to it"),
    (lambda to: to.app.set_attribute(to.check, unifier=True), "a `Check`, which has no unifier; give"),
    (lambda to: to.app.set_attribute("payments", partitions=2), "no attribute `partitions` of streams"),
    (lambda to: to.app.set_attribute("payments", unifier=True), "stream `payments`, which has no unifier"),
    (
        lambda to: to.stream(to.check.valid, to.store.input, keep="soon"),
        "`keep` of the stream is 'soon';",
    ),
    (lambda to: to.app.set_region("a b", to.store), "the name of the region `a b` has ' ' in it"),
    (lambda to: to.app.set_region("nobody"), "region `nobody` names no operator; give one: `set_region"),
    (lambda to: to.app.set_region("a", Store()), "what region `a` names is a `Store` that was not added"),
    (lambda to: to.app.set_region("a", to.store, window="soon"), "the window of region `a` is 'soon'; give"),
    (
        lambda to: to.app.add_policy(Store),
        "the class `Store`, which has no method `decide`; give an",
    ),
    (lambda to: to.app.promise("fast"), "a promise is 'fast'; make it with a function of `ridgeline.sla`"),
    (
        lambda to: to.app.promise(latency("check", p99=1), latency("check", p99=2)),
        "`latency_p99:check` is given",
    ),
    (
        lambda to: to.app.add_operator("a", Store(), stats_listeners=[print]),
        "a listener of the figures of `a` is <built-in .*, which has no method `observe`",
    ),
]


@pytest.mark.parametrize(("add", "told"), CASES, ids=lambda one: one[:30] if isinstance(one, str) else "")
def test_it_is_refused_where_it_is_added(add: Callable[[Parts], object], told: str) -> None:
    parts = Parts()
    with pytest.raises(StructureError, match=told):
        add(parts)


def test_what_is_written_elsewhere_is_added_once() -> None:
    parts = Parts()
    parts.app.dead_letters(parts.app.add_operator("letters", CollectorSink(DeadLetter)))
    assert [one.name for one in parts.app.operators] == ["source", "check", "store", "letters"]
