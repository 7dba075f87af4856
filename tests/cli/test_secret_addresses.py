"""Keys in addresses of stores, and in options: no command, error, warning or event shows these."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from ridgeline import Application, CheckpointError, OperatorError, RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import Failure
from ridgeline.api.support.secrets.addresses import mask_addresses
from ridgeline.cli.errors import CommandError
from ridgeline.cli.load import application_arguments
from ridgeline.cli.main import app
from ridgeline.cli.options import properties
from ridgeline.cli.settings import RunSettings
from ridgeline.engine.driver.checkpoint.run_description import describe_run
from ridgeline.engine.driver.outputs import Outputs
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import FileOutput
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink, ListInput
from ridgeline.testing.sinks import Collector
from support.engine.driven import publisher_context
from support.ports import free_port

SECRET = "hunter2Zq7/x"


def address(folder: str = "state") -> str:
    server = f"scheme=http&endpoint_override=127.0.0.1:{free_port()}&region=r"
    return f"s3://ann:{SECRET.replace('/', '%2F')}@bucket/{folder}?{server}"


def without(text: str) -> None:
    assert "hunter2" not in text, text


@pytest.mark.slow  # of S3's client, which tries again for seconds
@pytest.mark.parametrize(
    "words",
    [["describe", "AT"], ["copy", "AT", "AT2"], ["export-state", "AT", "--out", "out"]],
    ids=lambda words: words[0],
)
def test_commands_about_checkpoints(words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"AT": address(), "AT2": address("copy")}
    result = CliRunner().invoke(app, ["checkpoint", *(places.get(word, word) for word in words)])
    assert result.exit_code != 0
    without(result.output + str(result.exception))


def test_errors_by_whatever_way_they_are_shown() -> None:
    where = address()
    storage = MemoryStorage()
    storage.uri = where
    with pytest.raises(CheckpointError, match="holds no run") as raised:
        describe_run(storage)
    failure = Failure("app", "out", 0, 1, "publish", f"RidgelineError: `{where}` is gone")
    for error in (raised.value, RidgelineError(f"{where}: no"), OperatorError(failure)):
        without(str(error))
        without("".join(traceback.format_exception(error)))
        assert "s3://ann:***@bucket/state?" in str(error)
        assert "region=r" in str(error)
    without(json.dumps(failure.to_dict()))


def test_warnings_and_reasons_of_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    where, said = address(), []
    made = Application("secret")
    numbers = made.add_operator("numbers", ListInput(object, [1]))
    made.add_stream("numbers", numbers.output, made.add_operator("sink", CollectorSink(object)).input)
    plan, clock = plan_application(made), SystemClock()
    outputs = Outputs(plan, clock, lambda name: publisher_context(name, clock), warn=said.append)
    contexts: list[Any] = []
    monkeypatch.setattr(Collector, "open", lambda _self, context, _state: contexts.append(context))
    outputs.open(plan, {}, -1)
    contexts[0].warn(f"{where} does not answer")
    without(said[0])
    assert "`sink`: s3://ann:***@bucket" in said[0]


@pytest.mark.slow
def test_the_file_output_of_a_store_that_is_not_there() -> None:
    publisher = FileOutput(path=address("rows")).publisher()
    with pytest.raises(RidgelineError, match="`out` cannot write to `s3://") as raised:
        publisher.open(replace(publisher_context("out", SystemClock())), None)
    without("".join(traceback.format_exception(raised.value)))


@pytest.mark.slow
def test_a_run_whose_checkpoint_is_not_reached_says_so_without_its_keys(tmp_path: Any) -> None:
    words = ["checkpoint", "describe", address()]
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "RIDGELINE_DEBUG": "1", "HOME": str(tmp_path)},
    )
    assert done.returncode != 0
    without(done.stdout + done.stderr)


def test_the_command_that_goes_on_shows_no_secret() -> None:
    values = [f"rates.password={SECRET}", f"rates.options.access.key={SECRET}", "rates.n=3"]
    own = ["--api-key", SECRET, f"--token={SECRET}", "--partition-key", "symbol"]
    settings = RunSettings.of(
        "app.py",
        conf=[f"spark.hadoop.fs.s3a.secret.key={SECRET}", "spark.a.token=env:A", "spark.executor.memory=4g"],
        properties=[*values, f"rates.url=redis://:{SECRET}@cache"],
        own=[*own, "--url", f"https://h/?sig={SECRET}&x=1"],
    )
    keys = ["rates.password", "rates.options.access.key", "spark.hadoop.fs.s3a.secret.key"]
    assert settings.exposed() == keys
    command = settings.command("state")
    without(command)
    shown = ("spark.executor.memory=4g", "rates.n=3", "--partition-key symbol", "rates.password=***")
    assert all(one in command for one in (*shown, "--api-key '***'", "'--token=***'"))


def test_values_that_options_do_not_take_are_not_echoed() -> None:
    def application(password: int = 0) -> None:
        pass

    for read in (
        lambda: properties([f"password={SECRET}"]),
        lambda: properties([f"token:{SECRET}"]),
        lambda: RunSettings.of("app.py", conf=[f"token:{SECRET}"]),
        lambda: application_arguments("app.py", application, ["--password", SECRET]),
    ):
        with pytest.raises(CommandError) as caught:
            read()
        without(str(caught.value))
    assert "`--password` does not take `***`" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no address, password: x", "no address, password: x"),
        ("http://host:8080/a?b=c", "http://host:8080/a?b=c"),
        ("s3://k:a/b@c/d", "s3://k:***@c/d"),
        ("`redis://:p@ss@h`, `x://u:q@h`", "`redis://:***@h`, `x://u:***@h`"),
        ("x://h?secret_key=1&a=2&access_key=3 rest", "x://h?secret_key=***&a=2&access_key=*** rest"),
        ("see file:///tmp/x", "see file:///tmp/x"),
    ],
)
def test_nothing_else_in_a_text_changes(text: str, shown: str) -> None:
    assert mask_addresses(text) == shown
