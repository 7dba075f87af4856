"""A connection between two hosts whose network is cut: it outlives what is shorter than its timeout."""

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest

from ridgeline.engine.exchange.network import CUT, Lost, Received
from support.crash.hosts import SOURCES, Hosts
from support.engine.wire import CERTIFICATE, MASTER, TLS, Wire
from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.crash, pytest.mark.slow]

SILENT_SECONDS = 8.0
EVERY_SECONDS = 0.05


class Ends:
    """STRAM here and a process on the host `beta` that sends back what it gets."""

    def __init__(self, hosts, wire):
        self.hosts, self.wire = hosts, wire
        listen = replace(TLS, host=hosts.address)
        self.network = wire.make(MASTER, listen, silent_seconds=SILENT_SECONDS)
        path = os.pathsep.join([str(SOURCES), str(SUPPORT.parent)])
        self.far = subprocess.Popen(
            [*hosts.entering("beta"), sys.executable, "-m", "support.engine.far_end", str(SILENT_SECONDS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        self.far.stdin.write(f"{self.network.address}\n{json.dumps(asdict(CERTIFICATE))}\n")
        self.far.stdin.flush()
        wire.until(lambda: wire.opened(self.network), "the connection")
        self.peer = wire.opened(self.network)[0]
        self.sent = 0
        self._due = time.monotonic()

    def received(self):
        events = self.wire.events[self.network]
        return [int(bytes(event.head)) for event in events if isinstance(event, Received)]

    def lost(self):
        return [event for event in self.wire.events[self.network] if isinstance(event, Lost)]

    def go_on(self, seconds, *, sends):
        """Poll for so long; send a frame each `EVERY_SECONDS`."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self.poll(sends=sends, seconds=min(EVERY_SECONDS, end - now))

    def poll(self, *, sends, seconds=EVERY_SECONDS):
        if sends and time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_SECONDS
            self.network.send(self.peer, 1, str(self.sent).encode())
            self.sent += 1
        self.wire.poll(self.network, seconds)

    def until(self, condition, what, *, sends):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, what
            self.poll(sends=sends)

    def cut(self, seconds, *, sends):
        """Cut the network for so long; how long that was."""
        self.hosts.cut("beta")
        began = time.monotonic()
        self.go_on(seconds, sends=sends)
        self.hosts.mend("beta")
        return time.monotonic() - began


@pytest.fixture
def ends(tmp_path):
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(tmp_path, ["beta"]))
        wire = Wire()
        stack.callback(wire.close)
        found = Ends(hosts, wire)
        stack.enter_context(found.far)
        stack.callback(found.far.kill)
        yield found


@pytest.mark.parametrize("sends", [pytest.param(True, id="busy"), pytest.param(False, id="idle")])
@pytest.mark.parametrize("share", [0.45, 0.85])
def test_a_cut_that_is_shorter_than_the_timeout_loses_nothing(ends, sends, share):
    ends.go_on(1, sends=True)
    took = ends.cut(share * SILENT_SECONDS, sends=sends)
    if took > SILENT_SECONDS:
        pytest.skip(f"the machine is too busy: the cut lasted {took:.1f} s")
    ends.go_on(SILENT_SECONDS, sends=sends)
    ends.until(lambda: ends.lost() or len(ends.received()) >= ends.sent, "all that was sent", sends=False)
    assert ends.lost() == []
    assert ends.received() == list(range(ends.sent))
    assert ends.far.poll() is None


@pytest.mark.parametrize("sends", [pytest.param(True, id="busy"), pytest.param(False, id="idle")])
def test_both_ends_find_out_that_the_network_is_cut(ends, sends):
    ends.go_on(1, sends=True)
    ends.hosts.cut("beta")
    ends.until(ends.lost, "the loss", sends=sends)
    assert [event.reason for event in ends.lost()] == [CUT]
    assert ends.far.stdout.readline() == "open\n"
    assert ends.far.stdout.readline().startswith(f"{CUT}: ")
