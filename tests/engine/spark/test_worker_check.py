"""What is wrong with the Python of workers, told from what Spark says and from what they answer."""

import subprocess
import sys

import cloudpickle
import pytest

from ridgeline.engine.spark.worker_check import difference, explain, looker, own_environment

LOST = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: "
    "Lost task 1.3 in stage 0.0 (TID 10) (10.88.0.12 executor 0): "
)
FROM_WORKER = "org.apache.spark.SparkException: \nError from python worker:\n  "
NOT_FOUND = (
    "Error while finding module specification for 'ridgeline.engine.spark.daemon' "
    "(ModuleNotFoundError: No module named 'ridgeline')"
)
NO_PORT = (
    "EOFException occurred while reading the port number from ridgeline.engine.spark.daemon's stdout and "
    "terminated with code: 1."
)
OTHER_PYTHON = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker "
    "has different version: 3.9 "
    "than that in driver: 3.11, PySpark cannot run with different minor versions."
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            f"{FROM_WORKER}/usr/bin/python3: {NOT_FOUND}",
            (
                "the workers cannot run Ridgeline: host `10.88.0.12`: its Python, `/usr/bin/python3`, "
                "has no module `ridgeline`; "
            ),
        ),
        (
            (
                f"{FROM_WORKER}Traceback (most recent call last):\n  File ...\nModuleNotFoundError: No "
                "module named 'pyarrow'\nPYTHONPATH was:"
            ),
            "the workers cannot run Ridgeline: host `10.88.0.12`: its Python has no module `pyarrow`; ",
        ),
        (
            "ModuleNotFoundError: No module named 'ridgeline.engine.spark.worker_check'",
            (
                "host `10.88.0.12`: its Python has no module `ridgeline.engine.spark.worker_check`, or "
                "has another version of it; "
            ),
        ),
        (
            (
                'java.io.IOException: Cannot run program "/home/me/.venv/bin/python": '
                "error=2, No such file or directory"
            ),
            (
                "the workers have no Python: host `10.88.0.12` has no `/home/me/.venv/bin/python` that "
                "it can run; "
            ),
        ),
        (
            OTHER_PYTHON,
            (
                "the workers have another Python than the driver: host `10.88.0.12` has Python 3.9, the "
                "driver 3.11; "
            ),
        ),
        (
            (
                f"{FROM_WORKER}Traceback (most recent call last):\n  File ...\n    import pyarrow\n"
                "  ImportError: libarrow.so: cannot open shared object file\nPYTHONPATH was:\n  /a\n"
                f"java.io.EOFException: {NO_PORT}"
            ),
            "host `10.88.0.12`: its Python ended at its start: ImportError: libarrow.so: cannot open ",
        ),
        (
            f"org.apache.spark.SparkException: {NO_PORT}",
            "host `10.88.0.12`: its Python ended at its start and did not say why; ",
        ),
    ],
)
def test_the_cause_names_host_and_remedy(text, cause):
    told = explain(LOST + text, "spark://m:7077")
    assert cause in told
    assert "venv-pack" in told
    assert "`ridgeline run ... --archives env.tar.gz`" in told
    assert explain(LOST + text, "local[2]").endswith(
        "; unset PYSPARK_PYTHON, or let it name the Python that runs this command"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ValueError: No module named 'x'",
        "ModuleNotFoundError: No module named 'mine'",
        "ExecutorLostFailure",
    ],
)
def test_other_errors_are_left_alone(text):
    assert explain(LOST + text, "yarn") == ""


def test_the_question_names_nothing_of_ridgelines_engine():
    """A worker with another version of ridgeline must be able to answer."""
    text = cloudpickle.dumps(looker("/nowhere/run.json"))
    code = (
        "import sys, pickle; sys.modules['ridgeline.engine.spark.worker_check'] = None; "
        f"print(*pickle.loads({text!r})(0, ()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith(f"{own_environment().ridgeline}, False)")


def test_versions_are_compared():
    own = own_environment()
    assert difference(own, [own, own._replace(host="h1"), own._replace(ridgeline=0)]) == ""
    assert "the workers have another Python than the driver: host `h1` runs `" in difference(
        own, [own._replace(host="h1", python="3.9")]
    )
    assert "with pyspark 4.2.0, the driver has " in difference(own, [own._replace(pyspark="4.2.0")])
    assert "the workers have another version of ridgeline than the driver: host " in difference(
        own, [own._replace(ridgeline=1)]
    )
