"""Workers of Spark: what operators print, log and ask for in them; and workers that have no Python."""

import json
import re
import sys
from pathlib import Path

import pyspark
import pytest

import ridgeline
from support.accounts.reports import finished
from support.depth import deeper
from support.paths import SUPPORT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TINY = SUPPORT / "cli" / "tiny.py"
ADD = "        self.total += number.value\n"


def test_a_breakpoint_in_a_worker_says_what_to_do_instead(
    ridgeline_process, environment, tmp_path, monkeypatch
):
    (tmp_path / "stops.py").write_text(TINY.read_text().replace(ADD, f"        breakpoint()\n{ADD}"))
    words = ("run", "stops.py", "--master", "local[2]", "--quiet")
    monkeypatch.delitem(environment, "PYTHONBREAKPOINT", raising=False)
    process = ridgeline_process(*words)
    _, stderr = process.communicate()
    assert process.returncode == 3
    assert "`breakpoint()` was reached in a worker of Spark, which has no terminal" in stderr
    assert "`run_local(app)`" in stderr
    monkeypatch.setitem(environment, "PYTHONBREAKPOINT", "0")
    process = ridgeline_process(*words)
    _, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")


def test_what_operators_print_and_log(ridgeline_process, tmp_path):
    says = """
        if number.value == 13:
            print('thirteen')
            logging.getLogger('users').warning('password=%s', 'hunter2')
"""
    text = (
        TINY.read_text().replace(ADD, says + ADD).replace("import time\n", "import logging\nimport time\n", 1)
    )
    text = text.replace("Total(), recovery_attempts=0", 'Total(), on_error="SKIP"')
    (tmp_path / "chatty.py").write_text(text)
    words = ("run", "chatty.py", "--master", "local[2]", "--quiet", "-D", "total.fail_at=23")
    logged = ("--log-level", "debug", "--log-file", "run.log", "--log-format", "json")
    process = ridgeline_process(*words, *logged)
    _, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "[total:0] thirteen\n")
    text = (tmp_path / "run.log").read_text()
    assert "hunter2" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    (users,) = [line for line in lines if line["logger"] == "users"]
    assert users["message"] == "password=***"
    assert (users["operator"], users["partition"], users["window"]) == ("total", 0, 1)
    warnings = [line for line in lines if line["level"] == "WARNING" and line["logger"] != "users"]
    (skipped,) = [line for line in warnings if "runs again" not in line["message"]]
    assert skipped["logger"] == "ridgeline.observe.event_lines"
    assert (skipped["operator"], skipped["partition"], skipped["window"]) == ("total", 0, 2)
    messages = [line["message"] for line in lines if line not in warnings]
    assert sum(message.startswith("window ") for message in messages) == 5, "commits"
    assert messages[-1] == "run finished"


def with_python(environment, tmp_path, master, python):
    """A run whose workers shall have another Python: what it said as it failed."""
    command = [sys.executable, "-m", "ridgeline", "run", str(TINY), "--master", master]
    done = finished(command, cwd=tmp_path, env={**environment, "PYSPARK_PYTHON": str(python)})
    assert done.returncode == 3
    return done


@pytest.mark.parametrize("master", ["local[2]", pytest.param("local-cluster[1,1,1024]", marks=deeper)])
def test_there_is_no_such_python(master, tmp_path, environment):
    done = with_python(environment, tmp_path, master, "/nowhere/python")
    said = r"^error: the workers have no Python: host `[\d.]+` has no `/nowhere/python` .*; unset PYSP"
    assert re.search(said, done.stderr)
    assert "window 0: " not in done.stdout  # it may have run for long, but was not committed


def test_its_python_has_no_ridgeline(tmp_path, environment):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    done = with_python(environment, tmp_path, "local-cluster[1,1,1024]", bare)
    said = r"^error: the workers cannot run Ridgeline: host `[\d.]+`: its Python, `.*`, has no module"
    assert re.search(said, done.stderr)


# `spark-submit` starts the driver: its master and its settings are those of the run -------------------------


SUBMIT = Path(pyspark.__file__).with_name("bin") / "spark-submit"


@pytest.fixture
def spark_submit(tmp_path, environment):
    def submit(*words):
        variables = {**environment, "PYSPARK_PYTHON": sys.executable}
        command = [str(SUBMIT), *map(str, words)]
        return finished(command, cwd=tmp_path, env=variables)

    return submit


def test_an_application_that_starts_itself_takes_the_master_and_the_settings(spark_submit, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(TINY.parent)!r})\n"
        "from tiny import application\n"
        "from pyspark import SparkContext\n"
        "handle = application(20).start(port=None)\n"
        "active = SparkContext._active_spark_context\n"
        "print('MASTER', active.master, active.getConf().get('spark.shuffle.compress'), "
        "active.getConf().get('spark.locality.wait'))\n"
        "print('ENDED', handle.wait().ended)\n"
    )
    done = spark_submit("--master", "local[3]", "--conf", "spark.shuffle.compress=true", script)
    # One more than the three, for the slot.
    assert "MASTER local[4,4] true 0" in done.stdout, done.stdout + done.stderr[-3000:]
    assert "ENDED True" in done.stdout
    assert "DAGScheduler" not in done.stderr


@pytest.mark.guide("002", "Hadoop Cluster")
def test_the_command_takes_the_master_and_an_explicit_one_wins(spark_submit):
    command = Path(ridgeline.__file__).with_name("__main__.py")
    words = ("--master", "local[3]", command, "run", TINY, "--count", "20")
    done = spark_submit(*words)
    assert "tiny on local[3]: " in done.stdout, done.stdout + done.stderr[-3000:]
    assert "2 windows committed" in done.stdout
    done = spark_submit(*words, "--master", "local[1]")
    assert "tiny on local[1]: " in done.stdout, done.stdout + done.stderr[-3000:]
    assert "2 windows committed" in done.stdout
