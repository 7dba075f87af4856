"""Who wins: layers, and what is said within one."""

import fnmatch

import hypothesis
import pytest
from hypothesis import strategies as st

from ridgeline import Application, InputPort, Module, Operator, OutputPort, ValidationError
from ridgeline.operators import ConsoleOutput, Filter, RandomEventGenerator
from ridgeline.plan import plan_application
from ridgeline.settings.layers import Layer, flat
from ridgeline.settings.resolving import resolve
from ridgeline.testing import ListInput
from support.rows import in_a_row


class Greedy(Operator):
    """Has a property with the name of an attribute, and one with entries."""

    numbers = InputPort(object)

    memory_mb: int = 0
    options: dict[str, str] | None = None

    @numbers.process
    def take(self, number) -> None:
        """Take a number."""


def dice(name="dice"):
    return in_a_row(
        Application(name, windows_kept=2),
        source=(RandomEventGenerator(maximum=1), {"partitions": 1}),
        keep=Filter(bool),
        out=ConsoleOutput(),
    )


def layer(values, name="c.yaml", *, strict=True, **more):
    return Layer(name, name, flat(values), strict=strict, **more)


def settled(app, *layers, environment=None):
    """What the layers come to, as the plan sees it."""
    resolved = resolve(app, layers, environment or {})
    with resolved.reporting():
        plan = plan_application(app, resolved.properties, resolved.attributes)
    return resolved, plan.logical


def faults(app, *layers, environment=None):
    with pytest.raises(ValidationError) as caught:
        settled(app, *layers, environment=environment)
    return [str(fault) for fault in caught.value.faults]


# Within one layer -------------------------------------------------------------------------------------------


def vcores(*layers):
    """Of `keep`."""
    return settled(dice(), *layers)[1].operator("keep").attributes["vcores"]


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ({"operator.*.vcores": 1}, {"operator.keep.vcores": 2}),
        ({"operator.keep.vcores": 1}, {"application.d*.operator.*.vcores": 2}),
    ],
)
def test_the_nearer_one_wins_within_a_layer(below, above):
    assert vcores(layer({**below, **above})) == 2
    assert vcores(layer({**above, **below})) == 2


@pytest.mark.guide("002", "Attributes")
def test_a_higher_layer_wins_however_it_says_it():
    by_name = layer({"operator.keep.memory_mb": 1, "application.dice.operator.keep.vcores": 1})
    by_wildcard = layer({"operator.*.memory_mb": 2, "operator.k*.vcores": 2})
    attributes = settled(dice(), by_name, by_wildcard)[1].operator("keep").attributes
    assert (attributes["memory_mb"], attributes["vcores"]) == (2, 2)
    attributes = settled(dice(), by_wildcard, by_name)[1].operator("keep").attributes
    assert (attributes["memory_mb"], attributes["vcores"]) == (1, 1)


def test_what_wins_and_what_it_overrode_is_known():
    resolved, logical = settled(
        dice(),
        layer({"operator.source.maximum": 3, "application.window": "1s"}, "site file"),
        layer({"operator.source.maximum": "4"}, "environment"),
        layer({"operator.source.maximum": "5"}, "-D", only="property"),
    )
    choices = resolved.choices["property", "source.maximum"]
    assert [choice.setting.value for choice in choices] == ["5", "4", 3]
    assert (logical.operator("source").operator.maximum, logical.window_seconds) == (5, 1.0)


def test_entries_and_wholes():
    app = in_a_row(Application("greedy"), source=RandomEventGenerator(), sink=Greedy())
    low = layer({"operator.sink.options": {"a": "1", "b.c": "2"}})
    assert settled(app, low)[1].operator("sink").operator.options == {"a": "1", "b.c": "2"}
    assert settled(app, low, layer({"operator.sink.options.a": "9"}))[1].operator(
        "sink"
    ).operator.options == {
        "a": "9",
        "b.c": "2",
    }
    whole = layer({"operator.sink.options": '{"z": "0"}'})
    assert settled(app, low, whole)[1].operator("sink").operator.options == {"z": "0"}
    assert settled(app, whole, low)[1].operator("sink").operator.options == {"z": "0", "a": "1", "b.c": "2"}
    assert settled(app, low, layer({"operator.sink.options": {}}))[1].operator("sink").operator.options == {}


def test_a_name_of_a_property_and_an_attribute():
    app = Application("greedy")
    source = app.add_operator("source", RandomEventGenerator())
    sink = app.add_operator("sink", Greedy())
    app.add_stream("numbers", source.integer_data, sink.numbers)
    (fault,) = faults(app, layer({"operator.*.memory_mb": 5}))
    assert fault == (
        "`operator.*.memory_mb`: `memory_mb` of `sink` is both a property and an attribute (c.yaml); "
        "write `prop.memory_mb` or `attr.memory_mb`"
    )
    sink = settled(app, layer({"operator.sink": {"prop.memory_mb": 5, "attr.memory_mb": 6}}))[1].operator(
        "sink"
    )
    assert (sink.operator.memory_mb, sink.attributes["memory_mb"]) == (5, 6)


def test_ports_and_unifiers():
    values = {
        "operator": {"keep": {"port.data.partition_parallel": True, "unifier": {"*": {"memory_mb": 7}}}}
    }
    keep = settled(dice(), layer(values))[1].operator("keep")
    assert keep.ports["data"]["partition_parallel"] is True
    assert keep.unifiers["output"]["memory_mb"] == 7


class Twice(Module):
    """Filters one after the other; how many is a property."""

    data = InputPort(object)
    output = OutputPort(object)

    filters: int = 1

    def populate(self, app):
        """Add the filters."""
        last = None
        for number in range(self.filters):
            keep = app.add_operator(f"keep{number}", Filter(bool))
            if last is None:
                self.data.connect(keep.data)
            else:
                app.add_stream(f"between{number}", last.output, keep.data)
            last = keep
        self.output.connect(last.output)


def nested():
    app = Application("nested")
    source = app.add_operator("source", ListInput(object, [1, 0]))
    twice = app.add_module("twice", Twice())
    out = app.add_operator("out", ConsoleOutput())
    app.add_stream("numbers", source.output, twice.data)
    app.add_stream("kept", twice.output, out.input)
    return app


def test_modules_are_made_by_what_is_configured():
    values = {"operator": {"twice.filters": 2, "twice.keep1.vcores": 2, "twice.vcores": 1, "*.memory_mb": 9}}
    logical = settled(nested(), layer(values))[1]
    found = {one.name: (one.attributes["vcores"], one.attributes["memory_mb"]) for one in logical.operators}
    assert found == {"source": (None, 9), "twice.keep0": (1, 9), "twice.keep1": (2, 9), "out": (None, 9)}


def test_a_higher_layer_may_say_it_of_the_whole_module():
    by_name = layer({"operator.twice.keep0.vcores": 2})
    of_module = Layer("command line", "--attribute", {"operator.twice.vcores": "1"}, only="attribute")
    logical = settled(nested(), by_name, of_module)[1]
    assert logical.operator("twice.keep0").attributes["vcores"] == 1


def test_the_command_line_says_it_of_a_port_of_a_module():
    given = {"operator.twice.port.data.queue_capacity": "7", "stream.numbers.locality": "NODE_LOCAL"}
    logical = settled(nested(), Layer("command line", "--attribute", given, only="attribute"))[1]
    assert logical.operator("twice.keep0").ports["data"]["queue_capacity"] == 7
    assert next(one for one in logical.streams if one.name == "numbers").locality == "NODE_LOCAL"


# What names nothing -----------------------------------------------------------------------------------------

NOTHING = {
    "operator.sorce.maximum": "there is no operator `sorce` (c.yaml); did you mean `source`?",
    "operator.x*.maximum": "no operator has such a name and such a property or attribute (c.yaml); look at",
    "operator.*.maximun": "no operator has such a name and such a property or attribute (c.yaml); look at",
    "stream.kep.locality": "there is no stream `kep` (c.yaml); did you mean `keep`?",
    "application.dise.windows_kept": "the application is `dice`, not `dise` (c.yaml); did you mean `dice`?",
}


@pytest.mark.parametrize("key", NOTHING)
def test_a_key_that_names_nothing(key):
    (fault,) = faults(dice(), layer({key: 1}))
    assert fault.startswith(f"`{key}`: {NOTHING[key]}")
    resolved, _ = settled(dice(), layer({key: 1}, "site file", strict=False))
    assert [setting.key for setting in resolved.unused] == [key]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("operatr.source.maximum", 1, "`operatr` in a configuration (c.yaml); did you mean `operator`?"),
        ("operator", 5, "`operator` names no value (c.yaml); write `operator.NAME.PROPERTY`"),
        ("operator.source", 5, "`operator.source` names no value (c.yaml)"),
        ("application.dice.window.x", 5, "`application.dice.window.x` says nothing of application `dice`"),
        ("operator.source.maximun", 5, "property or attribute `maximun` (c.yaml); did you mean `maximum`?"),
        ("operator.keep.port.dta.partition_parallel", 5, "no port `dta` (c.yaml); did you mean `data`?"),
        ("operator.keep.port.data.partition_paralel", 5, "no attribute `partition_paralel`"),
        ("template.t.vcores", 1, "there is no key `template` in a configuration (c.yaml)"),
        ("operator.source.maximum", "much", "property `maximum` of `RandomEventGenerator` is 'much'"),
        ("operator.source.maximum", {"$import": "os.system"}, "`$import` names code"),
        ("operator.source.maximum", {"$env": "NO"}, "`NO` is not in the environment (c.yaml)"),
        ("operator.source.partitions", 0, "attribute `partitions` must be at least 1; got 0 (c.yaml)"),
        ("application.windows_kep", 5, "there is no attribute `windows_kep` of applications (c.yaml)"),
        ("application.window", "soon", "the window of the application"),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_what_is_a_fault_in_every_layer(key, value, text, strict):
    found = faults(dice(), layer({key: value}, strict=strict))
    assert text in found[0]
    assert "(c.yaml)" in found[0]


def test_all_faults_at_once_with_those_of_the_application():
    app = dice()
    app.add_operator("alone", ConsoleOutput())
    found = faults(app, layer({"operatr.x.y": 1, "operator.source.maximun": 2, "operator.nobody.x": 3}))
    assert len(found) == 4


def test_texts_of_the_environment():
    mark = {"operator.source.maximum": {"$env": "MOST"}}
    assert settled(dice(), layer(mark), environment={"MOST": "7"})[1].operator("source").operator.maximum == 7


# Against a naive model --------------------------------------------------------------------------------------

NAMES = ("source", "keep", "out")
_SAID = st.one_of(
    st.tuples(st.just("name"), st.sampled_from(NAMES)),
    st.tuples(st.just("wild"), st.sampled_from(["*", "?ource", "k*", "[ko]*", "*e*"])),
)
_VALUES = st.lists(st.tuples(_SAID, st.booleans(), st.integers(1, 99)), max_size=6)


@hypothesis.given(st.lists(_VALUES, max_size=5))
def test_random_layers_against_a_naive_model(layers):
    expected = dict.fromkeys(NAMES)
    best = dict.fromkeys(NAMES, (-1,))
    made = []
    for level, said in enumerate(layers):
        values = {}
        for position, ((how, pattern), of_application, number) in enumerate(said):
            prefix = "application.dice." if of_application else ""
            key = f"{prefix}operator.{pattern}.memory_mb"
            values.pop(key, None)
            values[key] = number
            for name in NAMES:
                fits = pattern == name if how == "name" else fnmatch.fnmatchcase(name, pattern)
                rank = (level, of_application, ("wild", "name").index(how), position)
                if fits and rank > best[name]:
                    best[name], expected[name] = rank, number
        made.append(Layer("c.yaml", str(level), values))
    resolved = resolve(dice(), made, {})
    assert not resolved.faults
    found = {name: resolved.attributes.get(f"{name}.memory_mb") for name in NAMES}
    assert found == expected


def test_a_package_cannot_say_how_it_is_run():
    (fault,) = faults(dice(), layer({"run.master": "local"}, "package"))
    assert "a package cannot say how it is run" in fault


def test_wildcards_that_would_backtrack():
    values = {f"operator.{'*a' * 200}b.vcores": 1}
    app = Application("long")
    source = app.add_operator("a" * 150, RandomEventGenerator())
    out = app.add_operator("out", ConsoleOutput())
    app.add_stream("numbers", source.integer_data, out.input)
    assert resolve(app, [layer(values, strict=False)], {}).attributes == {}
