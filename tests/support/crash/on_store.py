"""The application of `numbers.py` with its checkpoint on a store (S3), which a test breaks meanwhile."""

import json
import re
import signal
import urllib.request

import pyarrow.fs

from support import services
from support.crash.on_cluster import APPLICATION, PROPERTIES
from support.crash.processes import committed
from support.crash.rows import check_published
from support.jars import class_path, jars
from support.services.fixtures import ready


def store_behind_proxy():
    """The body of a fixture: a store behind a proxy, whose objects survive a kill."""
    jars("s3")
    found = ready(services.seaweedfs)
    yield found
    found.recover()


def s3_settings(store, endpoint=None):
    """The settings of Spark for a store. `endpoint`: another way to it than its own."""
    return {
        "spark.driver.extraClassPath": class_path("s3"),
        "spark.hadoop.fs.s3a.endpoint": endpoint or store.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": store.REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": store.KEY,
        "spark.hadoop.fs.s3a.secret.key": store.SECRET,
    }


class OnStore:
    """`numbers.py` with its checkpoint in a bucket of a store."""

    def __init__(self, start, wait_until, store, folder, bucket=None, log="run.log"):
        """`bucket`: of another driver, which this one follows past the proxy, that may be cut."""
        self.store, self.folder, self._start, self._wait_until = store, folder, start, wait_until
        self.bucket = bucket or store.bucket()
        self._endpoint = store.direct_endpoint if bucket else store.endpoint
        self.start(log)

    @property
    def places(self):
        """The options with the folders that it writes to."""
        return "--output", self.folder / "output", "--checkpoint", f"s3a://{self.bucket}/checkpoint"

    def start(self, log):
        """Start it, or start it again. What it prints is in this file."""
        settings = s3_settings(self.store, self._endpoint)
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        options += [part for value in (*PROPERTIES, "sums.state_bytes=50000") for part in ("-D", value)]
        for name in ("numbers", "sums", "store"):
            options += ["--attribute", f"{name}.recovery_attempts=0"]
        self.driver = self._start(
            APPLICATION,
            *self.places,
            *("--master", "local[4]", "--log-level", "INFO"),
            *options,
            log=log,
            AWS_EC2_METADATA_DISABLED="true",
            RIDGELINE_DEBUG="1",
        )

    def wait(self, condition, what):
        self._wait_until(lambda: condition() or self.driver.exit_code is not None, what)
        assert self.driver.exit_code is None, self.driver.text[-6000:]

    def says(self, pattern, times=1):
        self.wait(lambda: self.said(pattern) >= times, pattern)

    def said(self, pattern):
        return len(re.findall(rf"event_lines: (?:{pattern})", self.driver.text))

    def ask(self, path):
        address = re.search(r"http://127\.0\.0\.1:\d+", self.driver.text)
        if address is None:
            return None
        with urllib.request.urlopen(f"{address.group()}/ws/v2/stram/{path}", timeout=60) as answer:
            return json.load(answer)

    @property
    def windows(self):
        info = self.ask("info")
        return info["stats"]["windowsCommitted"] if info and "id" in info else 0

    def continues(self):
        before = self.windows
        self.wait(lambda: self.windows >= before + 10, "ten windows more")

    def finish(self):
        """End in order: what is published is what a plain run gives."""
        self.driver.process.send_signal(signal.SIGTERM)
        assert self.driver.wait() == 0, self.driver.text[-6000:]
        copy = self.folder / "copy"
        files = self.store._files()
        pyarrow.fs.copy_files(
            f"{self.bucket}/checkpoint", str(copy), source_filesystem=files, use_threads=False
        )
        check_published(self.folder / "output", committed(copy) + 1, APPLICATION, self.folder)
