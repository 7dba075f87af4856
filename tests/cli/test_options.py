import inspect
from pathlib import Path

import pytest

from ridgeline import Application
from ridgeline.cli import options
from ridgeline.cli.errors import CommandError
from ridgeline.cli.grouping import options_of
from ridgeline.cli.load import application_arguments
from ridgeline.cli.settings import Logs, RunSettings
from ridgeline.engine.process.log_channel import LogFormat


def settings(texts):
    """The values of `--conf`."""
    return RunSettings.of("app.py", conf=texts).options.conf


def example(
    data: str,
    output: Path | None = None,
    *,
    rows: int = 3,
    rate: float | None = None,
    fast: bool = False,
    deep_copy: bool = True,
):
    pass


def refused(function, *arguments):
    with pytest.raises(CommandError) as caught:
        function(*arguments)
    return str(caught.value)


def test_assignments():
    assert options.properties(["a.b=1", "a.c=x=y", "a.d="]) == {"a.b": "1", "a.c": "x=y", "a.d": ""}
    assert options.attributes(["book.partitions=3", "window=1s"]) == {"book.partitions": "3", "window": "1s"}
    assert settings(["spark.executor.memory=4g"]) == {"spark.executor.memory": "4g"}
    assert options.properties(["a.b=1", "a.b=2"]) == {"a.b": "2"}


@pytest.mark.parametrize(
    ("function", "texts", "option", "example"),
    [
        (options.properties, ["count", "count=1", ".count=1"], "-D", "payments.count=1000"),
        (options.attributes, ["x"], "--attribute", "balances.partitions=3"),
        (settings, ["=1"], "--conf", "spark.executor.memory=4g"),
    ],
)
def test_wrong_assignments(function, texts, option, example):
    for text in texts:
        said = refused(function, [text])
        assert said.startswith(f"`{option}` takes `"), said
        assert f"got `{text}`; for example `{option} {example}`" in said


def test_what_is_no_master():
    assert "is Spark Connect, which is not supported" in refused(options.check_master, "sc://host")
    assert refused(options.check_master, "lokal").startswith(
        "`--master lokal` is no Spark master; give `local[4]`"
    )


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["--data", "d"], {"data": "d"}),
        (
            ["--data=d", "--output", "o", "--rows=5", "--rate", "-0.5"],
            {"data": "d", "output": Path("o"), "rows": 5, "rate": -0.5},
        ),
        (["--fast", "--data", "d"], {"data": "d", "fast": True}),
        (["--data", "d", "--no-deep-copy", "--no-fast"], {"data": "d", "deep_copy": False, "fast": False}),
        (["--data", "d", "--deep-copy", "--rate=1e3"], {"data": "d", "deep_copy": True, "rate": 1000.0}),
    ],
)
def test_arguments_of_an_application(texts, expected):
    assert application_arguments("app.py", example, texts) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], "`app.py`: the following arguments are required: --data; it takes `--data DATA"),
        (["--data=1", "--dta", "x"], "`app.py`: there is no option `--dta` (did you mean `--data`?)"),
        (["--data=1", "--mastr", "x"], "`app.py`: there is no option `--mastr` (did you mean `--master`?)"),
        (["--data=1", "--zzz", "x"], "there is no option `--zzz`; it takes `--data"),
        (["--data"], "argument --data: expected one argument"),
        (["--data", "--fast"], "argument --data: expected one argument"),
        (["--data=1", "more"], "there is no option `more`"),
        (["--data=1", "--rows", "many"], "`--rows` does not take `many`: input should be a valid integer"),
        (["--data=1", "--fast=maybe"], "argument --fast/--no-fast: ignored explicit argument"),
    ],
)
def test_wrong_arguments_of_an_application(texts, expected):
    assert expected in refused(application_arguments, "app.py", example, texts)


def test_a_format_of_no_log():
    text = refused(Logs(log_format=LogFormat.JSON).settings)
    assert text == "`--log-format json` has no log to act on; give `--log-level` or `--log-file` too"


def test_what_app_start_takes_the_command_takes_too():
    own = {"self", "context", "resume"}  # a SparkContext has no text
    taken = set(inspect.signature(Application.start).parameters) - own
    assert taken <= {one.name for one in options_of(RunSettings)}


def test_settings_of_a_run_refuse_what_is_no_option():
    with pytest.raises(TypeError, match=r"no options of a run: .'window'.; there are .*'windows'"):
        RunSettings.of("app.py", window=3)
