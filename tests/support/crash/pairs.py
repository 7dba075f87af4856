"""A driver on one host and its standbys on others, with a store that all of them reach."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

from ridgeline.api.support.files import use_s3
from ridgeline.engine.driver.checkpoint.upkeep.contents import open_folder
from ridgeline.service.store.folder import EntryFolder
from support.crash.forwarding import Forwarding
from support.crash.hosts import Cluster, Hosts
from support.crash.processes import Driver
from support.crash.rows import Reader, check_published
from support.manifests import last_of
from support.paths import SUPPORT
from support.s3.drivers import settings

APPLICATION = SUPPORT / "crash" / "numbers.py"
PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.05", "store.roll_seconds=0.3")
LOCAL = ("--master", "local[2]")
SECONDS = 180
WAITS, HOLDS = "this one waits as its standby", "it holds 3 cores of the cluster, with Python started"
"""The words of a standby."""


class OnHost(Driver):
    """`ridgeline run ...` on one of `hosts`."""

    def __init__(self, hosts, name, arguments, log):
        self.name = name
        self._entering = hosts.entering(name)
        super().__init__(arguments, log)

    def words(self, arguments):
        return [*self._entering, *super().words(arguments)]


def committed(checkpoint):
    """The last committed window in a folder or on an object store, -1 before the first."""
    try:
        last = last_of(open_folder(str(checkpoint)))
    except FileNotFoundError:
        return -1
    return -1 if last is None else last.window_id


class Pair:
    """The application `numbers` on `hosts`, in a store: a folder that all see, or a URI.

    `options`: of all drivers. `options_on(name)`: of those on that host. `warm`: the words of a standby that
    has prepared all that it can.
    """

    def __init__(
        self, hosts, folder, wait_until, store=None, options=LOCAL, options_on=lambda _name: (), warm=WAITS
    ):
        self.hosts, self.folder, self._wait_until = hosts, folder, wait_until
        self._warm = warm
        self.output = folder / "output"
        self.store = str(folder / "store") if store is None else store
        if store is None:
            (folder / "store").mkdir()
        self.checkpoint = EntryFolder(self.store).checkpoint("numbers")
        self._options, self._options_on = options, options_on
        self.drivers = []
        self.reader = Reader(self.output, self.checkpoint, committed)

    def start(self, name, *more):
        """A driver on a host; it may not run yet."""
        arguments = [APPLICATION, "--output", self.output, "--store", self.store, *self._options]
        arguments += [*self._options_on(name), *(part for one in PROPERTIES for part in ("-D", one))]
        log = self.folder / f"{name}-{len(self.drivers)}.log"
        self.drivers.append(OnHost(self.hosts, name, [*map(str, arguments), *more], log))
        return self.drivers[-1]

    def run(self, name, *more):
        """A driver on a host that has committed ten windows."""
        driver = self.start(name, *more)
        self.go_on(driver)
        return driver

    def standby(self, name, *more, after="12s", says=None):
        """A driver on a host that waits, and takes over `after` a silence. Busy machines are silent, too.

        `says`: words that are waited for; None: as of one that has prepared all that it can.
        """
        driver = self.start(name, "--standby", "--take-over-after", after, *more)
        self.wait(lambda: (says or self._warm) in driver.text, "the standby", driver)
        return driver

    def run_beside(self):
        """A driver on the host `alpha` and its standby on `beta`, ten windows later; the reader has begun."""
        first = self.run("alpha")
        self.reader.start()
        second = self.standby("beta")
        self.go_on(first, second)
        return first, second

    def wait(self, condition, what, *drivers):
        """Wait while these drivers run."""
        ends = (lambda: any(one.exit_code is not None for one in drivers)) if drivers else (lambda: False)
        self._wait_until(lambda: condition() or ends(), what, seconds=SECONDS, every=0.05)
        for one in drivers:
            assert one.exit_code is None, one.text

    def go_on(self, *drivers):
        """Wait for ten windows more while these drivers run."""
        before = committed(self.checkpoint)
        self.wait(lambda: committed(self.checkpoint) >= before + 10, "ten windows more", *drivers)

    def seconds_until_next(self, *drivers, begin=None):
        """How long it takes from now, or from `begin`, until a window more is committed: by this clock."""
        begin = time.monotonic() if begin is None else begin
        before = committed(self.checkpoint)
        self.wait(lambda: committed(self.checkpoint) > before, "the next window", *drivers)
        return time.monotonic() - begin

    def takes_over(self, *standbys):
        """The one of these standbys that has taken over: wait for it."""
        found = []

        def look():
            found[:] = [one for one in standbys if "goes on from window" in one.text]
            return found

        self.wait(look, "a standby to take over", *standbys)
        assert len(found) == 1
        return found[0]

    def call(self, name, *words):
        """A command on a host, which has ended."""
        command = [*self.hosts.entering(name), sys.executable, "-m", "ridgeline", *map(str, words)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def finish(self, driver=None):
        """End a driver in order, if one is given: what is published is what a plain run gives, once."""
        if driver is not None:
            driver.process.send_signal(signal.SIGTERM)
            assert driver.wait() == 0, driver.text
        self.reader.finish()
        check_published(self.output, committed(self.checkpoint) + 1, APPLICATION, self.folder)

    def clean(self):
        """Kill what is left."""
        for one in self.drivers:
            one.clean()


@contextmanager
def on_folder(folder, wait_until):
    """Three hosts, with the store in a folder that they share; drivers on `local[2]`."""
    with Hosts(folder, ["alpha", "beta", "gamma"]) as hosts:
        yield from _cleaned(Pair(hosts, folder, wait_until))


@contextmanager
def on_s3(folder, wait_until, server):
    """As `on_folder`, with the store on S3, which hosts reach over the network only."""
    port = int(server.direct_endpoint.rpartition(":")[2])
    bucket = server.bucket()
    with Hosts(folder, ["alpha", "beta"]) as hosts, Forwarding(hosts.address, port):
        conf = {
            **settings(f"http://{hosts.address}:{port}"),
            "spark.hadoop.fs.s3a.access.key": server.KEY,
            "spark.hadoop.fs.s3a.secret.key": server.SECRET,
        }
        options = [*LOCAL, *(part for one in conf.items() for part in ("--conf", "=".join(one)))]
        near = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "region": server.REGION}
        use_s3({"access_key": server.KEY, "secret_key": server.SECRET, **near})
        try:
            yield from _cleaned(Pair(hosts, folder, wait_until, f"s3a://{bucket}/streams", options))
        finally:
            use_s3({})


@contextmanager
def on_cluster(folder, wait_until, cores=6, *, limited=True):
    """As `on_folder`, with drivers on a standalone cluster whose worker is on a host of its own.

    `limited`: each driver takes three cores; else all that there are.
    """
    with Cluster(folder, ["alpha", "beta", "gamma", "delta"]) as cluster:
        wait_until(lambda: "I have been elected leader" in cluster.text("master"), "the master")
        cluster.start_worker("gamma", cores=cores)
        wait_until(lambda: "Registering worker" in cluster.text("master"), "the worker")
        options = [*cluster.settings, *(("--conf", "spark.cores.max=3") if limited else ())]
        warm = HOLDS if limited and cores >= 6 else WAITS
        pair = Pair(cluster, folder, wait_until, None, options, cluster.driver_settings, warm)
        yield from _cleaned(pair)


def _cleaned(pair):
    try:
        yield pair
    finally:
        pair.clean()


def stop_processes(driver):
    """SIGSTOP to all processes of a driver. Returns a function that makes them continue."""
    pids = driver.members()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)

    def proceed():
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    return proceed
