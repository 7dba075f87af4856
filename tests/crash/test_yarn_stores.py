"""`submit --deploy-mode cluster` on YARN with a store on S3 or HDFS, which no node has as a folder."""

import contextlib
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pyarrow.fs
import pytest

from ridgeline.api.support.files import resolve, use_s3
from ridgeline.service.registry import process_identity
from ridgeline.service.store.folder import EntryFolder
from ridgeline.testing import services
from ridgeline.testing.services.fixtures import ready
from support.accounts.reports import finished
from support.crash.on_cluster import APPLICATION
from support.crash.processes import committed, parent
from support.crash.rows import check_published
from support.crash.yarn import SOURCES, Yarn
from support.depth import deeper
from support.jars import class_path
from support.operators.hdfs import Hdfs

pytestmark = [
    pytest.mark.crash,
    pytest.mark.spark,
    pytest.mark.slow,
    deeper,
]

PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.05", "store.roll_seconds=0.3")
OPTIONS = [part for value in PROPERTIES for part in ("-D", value)]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    with Yarn(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


class OnS3:
    """A store on S3. Keys and address are in the environment of each command."""

    def __init__(self):
        self.server = ready(services.moto)
        self.uri = f"s3a://{self.server.bucket()}/streams"
        self.environment = self.server.addresses()
        jars = class_path("s3")
        self.settings = {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars}

    def __enter__(self):
        use_s3(
            {
                "access_key": self.server.KEY,
                "secret_key": self.server.SECRET,
                "endpoint_override": self.server.endpoint.removeprefix("http://"),
                "scheme": "http",
                "region": self.server.REGION,
            }
        )
        return self

    def __exit__(self, *_):
        use_s3({})


class OnHdfs:
    """A store on HDFS. Where `libhdfs` is, the environment of each process says."""

    def __init__(self, folder):
        self._hdfs = Hdfs(folder)

    def __enter__(self):
        hdfs = self._hdfs.__enter__()
        self.uri, self.environment = f"{hdfs.uri}/streams", hdfs.environment
        self.settings = {
            f"spark.{where}.{name}": value
            for where in ("yarn.appMasterEnv", "executorEnv")
            for name, value in hdfs.environment.items()
        }
        os.environ.update(hdfs.environment)
        return self

    def __exit__(self, *given):
        self._hdfs.__exit__(*given)


@pytest.fixture(params=["s3", "hdfs"])
def store(request, tmp_path, monkeypatch):
    for name in ("ARROW_LIBHDFS_DIR", "CLASSPATH", "JAVA_HOME", "LIBHDFS_OPTS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # put back at the end
    with OnS3() if request.param == "s3" else OnHdfs(tmp_path / "hdfs") as found:
        yield found


@pytest.fixture
def entry(store):
    """`entry()`: what the store says of the application. A driver that a failed test leaves is killed."""
    folder = EntryFolder(store.uri)

    def read():
        found = folder.read("sums")
        return None if found is None else found.entry

    yield read
    found = read()
    if found is not None and process_identity(found.pid) == found.process:
        os.kill(found.pid, signal.SIGKILL)


def test_a_driver_in_the_cluster_continues_from_a_store_that_is_no_folder(
    yarn, store, entry, wait_until, tmp_path
):
    environment = {**os.environ, **yarn.environment, **store.environment}
    environment |= {"RIDGELINE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(SOURCES)}
    environment |= {"RIDGELINE_STORE": store.uri, "AWS_EC2_METADATA_DISABLED": "true"}
    settings = {**store.settings, "spark.yarn.appMasterEnv.PYTHONPATH": str(SOURCES)}
    settings["spark.executorEnv.PYTHONPATH"] = str(SOURCES)

    def command(*words):
        done = finished([sys.executable, "-m", "ridgeline", *words], env=environment, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def windows():
        files, base = resolve(store.uri)
        copy = tmp_path / "copy"
        while True:
            shutil.rmtree(copy, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):  # it lives: a file that was listed may be gone
                pyarrow.fs.copy_files(f"{base}/sums", str(copy), source_filesystem=files, use_threads=False)
                return committed(copy)

    def more(than):
        wait_until(lambda: windows() > than, f"windows after {than}", every=1.0)

    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    words = ["submit", str(APPLICATION), "--name", "sums", "--deploy-mode", "cluster", *yarn.in_cluster]
    out = command(*words, *OPTIONS, *conf, "--", "--output", str(tmp_path / "output"))
    found = entry()
    assert re.search(rf"sums runs: run {found.run}-1, at http://\S+:\d+", out)
    assert "sums" in command("ps")
    more(5)
    os.kill(parent(found.pid), signal.SIGKILL)  # the application master, above the driver's Python

    def again():
        """HDFS replaces no file at once: its entry may be missing for a moment."""
        now = entry()
        return now is not None and now.epoch == 2 and now.state == "running"

    wait_until(again, "YARN's second attempt", every=0.5)
    assert (entry().cluster_id, entry().submission) == (found.cluster_id, found.submission)
    more(windows() + 5)
    assert "sums has ended" in command("stop", "sums")
    wait_until(lambda: yarn.state(found.cluster_id) == ("FINISHED", "SUCCEEDED"), "YARN's word of it")
    last = windows()
    assert Path(tmp_path, "output").is_dir()
    check_published(tmp_path / "output", last + 1, APPLICATION, tmp_path)
