"""An application on Spark as others see it: in Spark's own UI, and by what its operators say."""

import json
import urllib.request

import pytest

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
