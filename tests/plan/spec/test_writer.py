"""Applications as specifications: what is written is read again as an equal plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from ridgeline import AffinityRule, Application, Operator
from ridgeline.api.errors import ValidationError
from ridgeline.api.support.masking import secrets_in
from ridgeline.plan import plan_application
from ridgeline.plan.show.to_json import to_dict
from ridgeline.plan.spec.form import WRITTEN, Form
from ridgeline.plan.spec.texts import read_document
from ridgeline.plan.specification import read_specification
from support.depth import deep
from support.plan.specifications import write_specification
from support.plan.specified import Color, Limits, Odd, Sink, Source, Step, double
from support.rows import in_a_row

TEXTS = st.text(max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = (
    st.none() | st.booleans() | st.integers() | FLOATS | TEXTS | st.sampled_from(["NaN", "5", "no", "$env"])
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: not any(secrets_in("anything", value)))
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(),
        "text": TEXTS,
        "ratio": st.none() | FLOATS,
        "names": st.lists(TEXTS, max_size=3),
        "options": st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3),
        "color": st.sampled_from(Color),
        "limits": st.builds(Limits, st.integers(), FLOATS),
        "pair": st.lists(st.integers(), max_size=3).map(tuple),
        "when": st.none() | st.datetimes().map(lambda when: when.replace(fold=0)),
        "price": st.decimals(allow_nan=False, allow_infinity=False),
        "anything": VALUES,
    },
)


@st.composite
def applications(draw):
    """A chain of operators, each read by several sinks; attributes of the application and of operators."""
    some = draw(st.fixed_dictionaries({}, optional={"windows_kept": st.integers(1, 9)}))
    app = Application("made", draw(st.sampled_from(["1s", 0, 0.5, "250ms"])), **some)
    made = [app.add_operator("source", Source(**draw(PROPERTIES)))]
    for number in range(draw(st.integers(0, 3))):
        attributes = {"partitions": draw(st.integers(1, 3))} if draw(st.booleans()) else {}
        function = draw(st.sampled_from([None, double, int, Color]))
        step = Step(function=function, limit=draw(st.integers(0, 20)))
        made.append(app.add_operator(f"step-{number}", step, **attributes))
        if draw(st.booleans()):
            app.set_attribute(step, recovery_attempts=draw(st.integers(0, 3)))
            app.set_attribute(step.data, unifier_single_final=draw(st.booleans()))
            app.set_attribute(step.output, unifier=True, memory_mb=draw(st.integers(1, 9)))
        locality = draw(st.sampled_from([None, "NODE_LOCAL"]))
        sink = app.add_operator(f"sink-{number}", Sink(name="x"))
        app.add_stream(f"s-{number}", made[-2].output, step.data, sink.data, locality=locality)
    last = app.add_operator("last", Sink(name=draw(st.text(min_size=1, max_size=5))))
    app.add_stream("last", made[-1].output, last.data)
    if draw(st.booleans()):
        relax = draw(st.booleans())
        app.add_affinity(AffinityRule("AFFINITY", [made[0], "last"], locality="NODE_LOCAL", relax=relax))
        app.add_affinity(AffinityRule("anti_affinity", pattern="s.*|last", relax=True))
    return app


def said(app):
    """The plan and the operators' properties in full; their order in mappings says nothing."""
    plan = plan_application(app)
    values = [(op.name, type(op.operator), op.operator.__getstate__()) for op in plan.logical.operators]
    written = to_dict(plan)
    for operator in written["logical"]["operators"]:
        del operator["properties"]
    return written, values


@given(applications(), st.sampled_from(WRITTEN))
@settings(max_examples=deep(16), deadline=None)
def test_what_is_written_is_read_as_an_equal_plan(app, form):
    text = write_specification(app, form)
    assert said(read_specification(read_document(text, form), "file")) == said(app)


def with_source(source):
    return in_a_row(Application("one"), source=source, sink=Sink(name="x"))


def with_step(step):
    app = with_source(Source())
    app.add_operator("step", step)
    return app


def faults(app):
    with pytest.raises(ValidationError) as caught:
        write_specification(app, Form.YAML)
    return [str(fault) for fault in caught.value.faults]


class Unlike:
    """Has no plain form."""


@pytest.mark.parametrize(
    ("app", "text"),
    [
        (with_step(Step(function=lambda x: x)), "`step.function`: property `function` cannot be written:"),
        (with_source(Source(anything=Unlike())), "`source.anything`: property `anything` cannot be"),
        (with_source(Source(anything=(1, 2))), "a `tuple` has no form in a specification; give plain values"),
        (with_source(Source(anything=float("nan"))), "a `float` has no form in a specification"),
        (with_source(Source(text="\ud800")), "a `str` has no form in a specification"),
        (with_source(Source(password="x")), "it is a secret, which belongs into no file; leave it out"),
        (with_source(Source(secret=SecretStr("x"))), "property `secret` cannot be written: it is a secret"),
        (with_source(Source(options={"password": "x"})), "`options` cannot be written: it is a secret"),
        (with_step(Odd(5)), "`start` is no property, but the operator was made with it; declare it"),
        (with_step(type("Local", (Operator,), {})()), "`Local` cannot be imported by name; define it"),
    ],
)
def test_what_cannot_be_written_names_operator_and_property(app, text):
    found = faults(app)
    assert len(found) == 1
    assert text in found[0]
    assert "geheim" not in found[0]
