"""`spark-submit` starts the driver: its master and its settings are those of the run."""

import sys
from pathlib import Path

import pyspark
import pytest

import ridgeline
from support.accounts.reports import finished
from support.paths import SUPPORT

TINY = SUPPORT / "cli" / "tiny.py"
SUBMIT = Path(pyspark.__file__).with_name("bin") / "spark-submit"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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
    done = spark_submit("--master", "local[3]", command, "run", TINY, "--count", "20", "--no-service")
    assert "tiny on local[3]: " in done.stdout, done.stdout + done.stderr[-3000:]
    assert "2 windows committed" in done.stdout
    done = spark_submit(
        "--master", "local[3]", command, "run", TINY, "--count", "20", "--no-service", "--master", "local[1]"
    )
    assert "tiny on local[1]: " in done.stdout, done.stdout + done.stderr[-3000:]
    assert "2 windows committed" in done.stdout
