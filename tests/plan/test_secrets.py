from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import Field, SecretBytes, SecretStr

from ridgeline import Application, InputOperator, Operator, OutputPort, ValidationError
from ridgeline.operators import ConsoleOutput, SparkInput
from ridgeline.plan.planner import plan_application
from ridgeline.plan.show.text import describe
from ridgeline.plan.show.to_json import to_dict
from support.rows import in_a_row

SECRET = "hunter2-Zq7"


class Table(InputOperator):
    out = OutputPort(object)

    url: str = ""
    password: str = ""
    options: dict[str, str] = Field(default={})
    dsn: SecretStr = SecretStr("")
    blob: SecretBytes | None = None
    several: dict[str, SecretStr] = Field(default={})
    port: int = 0


def application(**properties: Any) -> Application:
    return in_a_row(Application("tables"), table=Table(**properties), console=ConsoleOutput())


@pytest.mark.parametrize(
    "properties",
    [
        {"password": SECRET},
        {"url": f"postgres://ann:p@{SECRET}@db/sales"},
        {"options": {"fs.s3a.access.key": SECRET, "user": "ann"}},
        {"options": {"kafka.sasl.jaas.config": f'Login required password="{SECRET}";'}},
        {"dsn": SecretStr(SECRET)},
        {"dsn": SECRET},
        {"blob": SECRET.encode()},
        {"several": {"one": SECRET}},
    ],
)
def test_plans_show_no_secret(properties: dict[str, Any]) -> None:
    plan = plan_application(application(**properties))
    text, document = describe(plan), json.dumps(to_dict(plan))
    for shown in (text, document):
        assert SECRET not in shown
        assert "***" in shown


def test_a_secret_property_can_be_set_from_the_command_line() -> None:
    plan = plan_application(application(), {"table.dsn": SECRET, "table.blob": SECRET})
    table: Any = plan.logical.operators[0].operator
    assert table.dsn.get_secret_value() == SECRET
    assert table.blob.get_secret_value() == SECRET.encode()
    assert SECRET not in repr(vars(table))
    assert SECRET not in describe(plan)


class Strict(Operator):
    inner: dict[str, int] = Field(default={})
    key: SecretStr = Field(default=SecretStr("0123456789"), min_length=10)
    password: int = 0
    url: str = Field(default="", pattern="https:.*")


@pytest.mark.parametrize(
    ("properties", "shown"),
    [
        ({"password": SECRET}, "property `password` of `Strict` is '***'"),
        ({"inner": {"access.key": SECRET}}, "property `inner.access.key` of `Strict` is '***'"),
        ({"key": SECRET[:7]}, "property `key` of `Strict` is '***'"),
        ({"url": f"redis://:{SECRET}@cache"}, "property `url` of `Strict` is 'redis://:***@cache'"),
    ],
)
def test_faults_show_no_secret(properties: dict[str, Any], shown: str) -> None:
    app = Application("strict")
    app.add_operator("strict", Strict(**properties))
    with pytest.raises(ValidationError) as caught:
        plan_application(app)
    assert shown in str(caught.value)
    assert SECRET[:7] not in str(caught.value)


def test_options_of_spark_show_no_secret() -> None:
    app = Application("kafka")
    source = SparkInput(
        format="kafka",
        schema=object,
        options={"kafka.ssl.keystore.key": SECRET, "subscribe": "trades", "kafka.ssl.keystore.type": "PEM"},
    )
    app.add_operator("trades", source)
    with pytest.raises(ValidationError) as caught:
        plan_application(app, {"trades.options": json.dumps({"password": [SECRET]})})
    assert SECRET not in str(caught.value)
