"""An application on Spark as others see it: in Spark's own UI, and by what its operators say."""

import json
import re
import urllib.request

import pytest
from typer.testing import CliRunner

from ridgeline.cli.main import app as command
from ridgeline.service import registry
from support.crash.processes import Driver
from support.ports import free_port
from support.service import talking
from support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark_port():
    return free_port()


@pytest.fixture(scope="module")
def url(spark_port, tmp_path_factory):
    """The address of the application, which runs as a process of its own."""
    folder = tmp_path_factory.mktemp("talking")
    arguments = [talking.__file__, "--master", "local[4]"]
    arguments += ["--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={spark_port}"]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RIDGELINE_HOME", str(folder / "home"))
        driver = Driver(arguments, folder / "run.log")
        try:
            entries = wait_until(
                lambda: driver.exit_code is not None or registry.running(), "the application to be registered"
            )
            assert driver.exit_code is None, driver.text
            yield entries[0].url
        finally:
            driver.clean()


def asked(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def test_its_jobs_name_the_page_in_sparks_ui(url, spark_port):
    applications = f"http://127.0.0.1:{spark_port}/api/v1/applications"
    (application,) = asked(applications)

    def jobs():
        found = asked(f"{applications}/{application['id']}/jobs")
        return {job["description"] for job in found if job.get("description")}

    fed = f"window 0: rows of Spark sources for the slots, page {url}"
    wait_until(lambda: fed in jobs(), "the first window")
    for slot in (1, 2, 3):
        begins, ends = f"talking: slot {slot} of 3 (", f"), page {url}"
        assert any(one.startswith(begins) and one.endswith(ends) for one in jobs())


def test_what_operators_print_and_log_is_shown_without_secrets(url):
    def said(*arguments):
        result = CliRunner().invoke(command, ["logs", url, "--operator", "talks", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    wait_until(lambda: "[talks:0]" in (shown := said()) and "[talks:1]" in shown, "lines of both partitions")
    shown = said("-n", "1000")
    assert re.search(r"Z \[talks:[01]\] number \d+00, known to \*\*\*\n", shown)
    assert re.search(r"Z \[talks:[01]\] WARNING talks: hundreds: \d+00\\x1b\[2J\n", shown)
    assert talking.TOKEN not in shown
    line = json.loads(said("--json", "--partition", "1", "-n", "1"))
    assert (line["partition"], line["leftOut"]) == (1, 0)
    assert line["windowId"] >= 0
