"""The application `regional.py`, three regions with queues between them, whose files a test takes away."""

import re
import signal

from support.crash.on_store import OnStore, s3_settings
from support.crash.regional_rows import check_rows
from support.paths import SUPPORT

APPLICATION = SUPPORT / "crash" / "regional.py"
OPERATORS = "rows", "pass_on", "sent", "fast", "slow", "fast_files", "slow_files"


class Regions(OnStore):
    """Runs of it. `store`: an S3 with its checkpoint, and with it the queues; None: all is on the disk."""

    def __init__(self, start, wait_until, folder, store=None):
        self.output, self.checkpoint = folder / "output", folder / "checkpoint"
        self.output.mkdir(exist_ok=True)
        self.store, self.folder, self._start, self._wait_until = store, folder, start, wait_until
        self.bucket = None if store is None else store.bucket()
        self.start("run.log")

    def start(self, log):
        """Start it, or start it again. What it prints is in this file."""
        checkpoint, settings = self.checkpoint, {}
        if self.store is not None:
            checkpoint, settings = f"s3a://{self.bucket}/checkpoint", s3_settings(self.store)
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        for name in OPERATORS:
            options += ["--attribute", f"{name}.recovery_attempts=0"]
        self.driver = self._start(
            APPLICATION,
            *("--output", self.output, "--partitions", "1", "--checkpoint", checkpoint),
            *("--master", "local[4]", "--log-level", "INFO", *options),
            log=log,
            AWS_EC2_METADATA_DISABLED="true",
            RIDGELINE_DEBUG="1",
        )

    @property
    def windows(self):
        """The last committed window of the region that has the fewest."""
        found = self.ask("regions")
        regions = found["regions"] if found else []
        assert all(one["state"] != "FAILED" for one in regions), regions
        return min((one["committedWindow"] or 0 for one in regions), default=0)

    def continues(self):
        before = self.windows
        self.wait(lambda: self.windows >= before + 5, "five windows more of each region")

    def stops_while_stuck(self, pattern):
        """It says what it waits for. Ctrl-C ends it meanwhile, with an error."""
        self.says(pattern, self.said(pattern) + 1)
        application = self.ask("progress")["application"]
        assert application["verdict"] in {"stuck", "unreachable"}, application
        assert application["stuckStores"], application
        self.driver.process.send_signal(signal.SIGINT)
        assert self.driver.wait() != 0
        assert re.search("nothing that was committed is lost|not answered", self.driver.text)

    def finish(self):
        """End it in order: all sinks have all rows, each once, as a plain loop makes them."""
        (self.output / "enough").touch()
        assert self.driver.wait() == 0, self.driver.text[-6000:]
        return check_rows(self.output)
