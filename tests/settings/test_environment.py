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
    for name in ("sum_of-Trades", "Sum", "_x_"):
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
        ("operator__Sum__partitions", "Sum.partitions"),
        ("operator__sum_of-Trades__limit_", "sum_of-Trades.limit_"),
        ("operator__Sum__prop__maxRate", "Sum.maxRate"),
        ("operator__Sum__options__kafka__topic", "Sum.options.kafka.topic"),
        ("operator__Sum__port__numbers__partition_parallel", "Sum.port.numbers.partition_parallel"),
        ("operator__source__unifier__integer_data__memory_mb", "source.unifier.integer_data.memory_mb"),
        ("application__windows_kept", "windows_kept"),
        ("application__my-shop__window", "window"),
        ("operator__s*__vcores", "source.vcores"),
    ],
)
def test_how_names_are_written(variable, key):
    values, faults = read({variable: "5"})
    assert (values[key], faults) == ("5", [])


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("operator__Summ__limit_", "there is no operator `Summ` (RIDGELINE__operator__Summ__limit_)"),
        ("operator", "`operator` names no value (RIDGELINE__operator)"),
        ("", "there is no key `` in a configuration (RIDGELINE__)"),
        ("OPERATOR__Sum__limit_", "there is no key `OPERATOR` in a configuration"),
        ("application__other__window", "the application is `my-shop`, not `other`"),
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
