"""Variables of the environment: how names are written in them, and found."""

import pytest

from ridgeline import Application, InputPort, Operator
from ridgeline.operators import RandomEventGenerator
from ridgeline.settings.environment import unread_variables
from ridgeline.settings.files import outer_layers
from ridgeline.settings.resolving import resolve


class Sink(Operator):
    """Properties whose names are hard to write."""

    numbers = InputPort(object)

    limit_: int = 0
    maxRate: int = 0  # noqa: N815  what the test is about
    options: dict[str, str] | None = None

    @numbers.process
    def take(self, number) -> None:
        """Take a number."""


def app():
    made = Application("my-shop")
    source = made.add_operator("source", RandomEventGenerator())
    for name in ("sum_of-Trades", "a__b", "Sum", "_x_"):
        sink = made.add_operator(name, Sink())
        made.add_stream(f"to{name}", source.integer_data, sink.numbers)
    return made


def read(variables):
    faults = []
    environment = {f"RIDGELINE__{name}": value for name, value in variables.items()}
    layers = outer_layers(environment, [], automatic=False, faults=faults)
    resolved = resolve(app(), layers, environment)
    return resolved.properties | resolved.attributes, [str(fault) for fault in resolved.faults]


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("OPERATOR__SUM__PARTITIONS", "Sum.partitions"),
        ("OPERATOR__SUM_OF_TRADES__LIMIT_", "sum_of-Trades.limit_"),
        ("OPERATOR__A__B__MAXRATE", "a__b.maxRate"),
        ("OPERATOR___X___LIMIT_", "_x_.limit_"),
        ("OPERATOR__SUM__PROP__MAXRATE", "Sum.maxRate"),
        ("OPERATOR__SUM__OPTIONS__KAFKA__TOPIC", "Sum.options.kafka.topic"),
        ("OPERATOR__SUM__PORT__NUMBERS__PARTITION_PARALLEL", "Sum.port.numbers.partition_parallel"),
        ("OPERATOR__SOURCE__UNIFIER__INTEGER_DATA__MEMORY_MB", "source.unifier.integer_data.memory_mb"),
        ("APPLICATION__WINDOWS_KEPT", "windows_kept"),
        ("APPLICATION__MY_SHOP__WINDOW", "window"),
        ("OPERATOR__s*__vcores", "source.vcores"),
    ],
)
def test_how_names_are_written(variable, key):
    values, faults = read({variable: "5"})
    assert (values[key], faults) == ("5", [])


def test_templates():
    values, faults = read({"TEMPLATE__BIG__VCORES": "3", "OPERATOR__SUM__TEMPLATE": "big"})
    assert (values, faults) == ({"Sum.vcores": "3"}, [])


def test_what_could_mean_several():
    made = app()
    made.add_operator("SUM", Sink())
    faults = []
    layers = outer_layers({"RIDGELINE__OPERATOR__SUM__LIMIT_": "5"}, [], automatic=False, faults=faults)
    resolved = resolve(made, layers, {})
    (fault,) = resolved.faults
    assert str(fault) == (
        "`RIDGELINE__OPERATOR__SUM__LIMIT_`: it could mean `operator.Sum.limit_` or `operator.SUM.limit_`; "
        "write it as it is, such as `RIDGELINE__operator__Sum__limit_`"
    )
    layers = outer_layers({"RIDGELINE__operator__SUM__limit_": "5"}, [], automatic=False, faults=faults)
    assert resolve(made, layers, {}).properties == {"SUM.limit_": "5"}


def test_two_that_say_the_same():
    _, (fault,) = read({"OPERATOR__SUM__LIMIT_": "5", "operator__Sum__limit_": "6"})
    assert fault == (
        "`RIDGELINE__operator__Sum__limit_`: `RIDGELINE__OPERATOR__SUM__LIMIT_` says the same, "
        "`operator.Sum.limit_`; keep one of them"
    )


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("OPERATOR__SUMM__LIMIT_", "there is no operator `summ` (RIDGELINE__OPERATOR__SUMM__LIMIT_)"),
        ("OPERATOR", "`operator` names no value (RIDGELINE__OPERATOR)"),
        ("", "there is no key `` in a configuration (RIDGELINE__)"),
        ("OPERATER__SUM__LIMIT_", "there is no key `operater` in a configuration"),
        ("APPLICATION__OTHER__WINDOW", "the application is `my-shop`, not `other`"),
    ],
)
def test_what_names_nothing(variable, text):
    _, (fault,) = read({variable: "5"})
    assert text in fault


def test_a_variable_that_is_not_read_is_named_with_the_one_that_may_be_meant():
    of_kubernetes = ["RIDGELINE_WEB_SERVICE_HOST", "RIDGELINE_WEB_SERVICE_PORT", "RIDGELINE_WEB_PORT_80_TCP"]
    unread = unread_variables(
        ["PATH", "RIDGELINE_TOKEM", "RIDGELINE_EXECUTION", "RIDGELINE__run__x", *of_kubernetes]
    )
    assert unread[1] == (
        "the environment variable `RIDGELINE_TOKEM` is not read; did you mean `RIDGELINE_TOKEN`?"
    )
    assert "`RIDGELINE_EXECUTION` is not read; configuration begins with `RIDGELINE__`; " in unread[0]
    assert len(unread) == 2
