"""Hooks arrive, and those that hang, fail or flood hold nobody up."""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from ridgeline.policies import PromiseState
from ridgeline.sla import Hook
from support.waiting import wait_until

BROKEN = PromiseState("latency_p99:store", "latency", "store", False, 1.0, 3.0, 2.0, "s")


class Receiver(BaseHTTPRequestHandler):
    """Fails once, then keeps what is posted."""

    bodies: ClassVar[list[bytes]] = []
    calls: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Refuse the first call."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.calls.append(self.path)
        self.send_response(500 if len(self.calls) == 1 else 200)
        self.end_headers()
        if len(self.calls) > 1:
            self.bodies.append(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_webhook_is_called_again_until_it_answers() -> None:
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hook = Hook(f"http://127.0.0.1:{server.server_port}/told")
        assert hook.fire("shop", BROKEN)
        wait_until(lambda: bool(Receiver.bodies), "the second call")
        hook.close()
        server.shutdown()
    told = json.loads(Receiver.bodies[0])
    assert (told["application"], told["name"], told["kept"]) == ("shop", "latency_p99:store", False)
    assert (len(Receiver.calls), hook.failed) == (2, 0)


def test_a_command_reads_the_state_and_no_shell_sees_it(tmp_path: Path) -> None:
    told = tmp_path / "told $(x)"
    program = "import sys; open(sys.argv[1] + '.new', 'w').write(sys.stdin.read())"
    rename = "; import os; os.rename(sys.argv[1] + '.new', sys.argv[1])"
    hook = Hook([sys.executable, "-c", program + rename, str(told)])
    hook.fire("shop", BROKEN)
    wait_until(told.exists, "the command")
    hook.close()
    assert json.loads(told.read_text())["figure"] == 3.0


@pytest.mark.parametrize("command", [["sleep", "100"], ["false"], ["/no/such/command"]])
def test_hooks_that_hang_or_fail_are_given_up(command: list[str]) -> None:
    hook = Hook(command, timeout=0.1, attempts=2)
    hook.fire("shop", BROKEN)
    wait_until(lambda: hook.failed == 1, "the last attempt")
    hook.close()


def test_a_flood_is_dropped_and_nobody_waits() -> None:
    hook = Hook(["sleep", "100"], timeout=0.5, attempts=1)
    began = time.thread_time()
    told = [hook.fire("shop", BROKEN) for _ in range(1000)]
    assert time.thread_time() - began < 1.0
    assert hook.dropped == told.count(False) >= 1000 - 102
    hook.close()
    assert not hook.fire("shop", BROKEN)


def test_a_command_that_hangs_ends_with_the_run(tmp_path: Path) -> None:
    mine = tmp_path / "pid"
    program = "import os, sys, time; open(sys.argv[1] + '.new', 'w').write(str(os.getpid()))"
    hang = "; os.rename(sys.argv[1] + '.new', sys.argv[1]); time.sleep(99)"
    hook = Hook([sys.executable, "-c", program + hang, str(mine)])
    hook.fire("shop", BROKEN)
    wait_until(mine.exists, "the command")
    hook.close(0.0)
    wait_until(lambda: not Path(f"/proc/{mine.read_text()}/cmdline").exists(), "its end")


def test_a_line_for_a_shell_is_refused() -> None:
    with pytest.raises(ValueError, match="a command as a list of its arguments"):
        Hook("rm -rf /tmp/x")
