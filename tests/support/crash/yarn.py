"""YARN with two node managers on this machine, in one Java process, for tests."""

import contextlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from urllib.request import urlopen
from xml.etree import ElementTree as ET

import pyspark
import pytest

import ridgeline
from support.accounts.reports import Command
from support.jars import class_path
from support.waiting import wait_until

SPARK = Path(pyspark.__file__).parent
SOURCES = Path(ridgeline.__file__).parent.parent
_SOURCE = Path(__file__).with_name("Yarn.java")


class Yarn:
    """A cluster whose files lie in `folder`. Skips where its jars cannot be had, or there is no compiler."""

    def __init__(self, folder):
        if shutil.which("javac") is None:
            pytest.skip("YARN of tests is a Java source, and there is no `javac` on the PATH")
        self.folder, self._settings = folder, folder / "conf"
        of_spark = (SPARK / "jars").glob("log4j-*.jar")
        self._jars = os.pathsep.join([class_path("yarn"), *map(str, of_spark)])

    def __enter__(self):
        self._settings.mkdir(parents=True)
        log = self.folder / "yarn.log"
        words = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        with log.open("wb") as out:
            self.process = Command(
                [*words, "-cp", self._jars, _SOURCE, self._settings],
                log=log, cwd=self.folder, stdout=out, stderr=out,
            )  # fmt: skip
        made = self._settings / "yarn-site.xml"
        wait_until(lambda: made.exists() or self.process.poll() is not None, "YARN")
        assert made.exists(), log.read_text(errors="replace")[-3000:]
        return self

    def __exit__(self, *_):
        self.process.clean()
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def environment(self):
        """What `ridgeline run` needs to find it."""
        return {"HADOOP_CONF_DIR": str(self._settings), "PYSPARK_PYTHON": sys.executable}

    @property
    def settings(self):
        """Arguments of `ridgeline run` for this cluster."""
        settings = {
            "spark.yarn.jars": f"local:{SPARK}/jars/*",
            "spark.yarn.stagingDir": self.folder.as_uri(),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executorEnv.PYTHONPATH": str(SOURCES),
            "spark.yarn.am.memory": "512m",
            "spark.executor.memory": "512m",
        }
        conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        return ["--master", "yarn", *conf]

    submit = SPARK / "bin" / "spark-submit"

    @property
    def in_cluster(self):
        """Arguments of `spark-submit` for this cluster, beside its master, with the driver in it."""
        settings = {
            "spark.yarn.jars": f"local:{SPARK}/jars/*",
            "spark.yarn.stagingDir": self.folder.as_uri(),
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "2",
        }
        return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]

    def state(self, cluster_id):
        """The state and the final status of an application, as the resource manager says."""
        app = self.report(cluster_id)
        return app["state"], app["finalStatus"]

    def report(self, cluster_id):
        """What the resource manager says of an application."""
        with urlopen(f"http://{self._manager}/ws/v1/cluster/apps/{cluster_id}", timeout=30) as answer:
            return json.load(answer)["app"]

    @property
    def _manager(self):
        """The address of the resource manager's web service."""
        site = ET.parse(self._settings / "yarn-site.xml").getroot()
        values = {one.findtext("name"): one.findtext("value") for one in site.iter("property")}
        return values["yarn.resourcemanager.webapp.address"]

    def _pids(self):
        """The Java processes that its node managers have started."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if words[0].endswith("java") and any(f"{self.folder}/target" in one for one in words):
                    found.append(int(entry.name))
        return found
