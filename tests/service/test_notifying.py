"""What a driver says to the service manager that has started it."""

import os
import socket

import pytest

from ridgeline.service.notifying import Manager, Notifier, taken
from support.service.managers import messages


@pytest.fixture(params=["file", "abstract"])
def manager(request, tmp_path):
    """A service manager's socket, and its address as systemd writes it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        address = f"@ridgeline-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify")
        end.bind("\0" + address[1:] if address.startswith("@") else address)
        end.settimeout(60)
        yield end, address


def test_the_manager_of_a_process_is_taken_once():
    watched = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}
    given = {**watched, "A": "b"}
    assert taken(given) == Manager("/run/x", 3.0)
    assert given == {"A": "b"}
    assert taken({**watched, "NOTIFY_SOCKET": "@x", "WATCHDOG_PID": "1"}) == Manager("@x", 0.0)
    assert taken({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "5"}) is None
    assert taken({"WATCHDOG_USEC": "soon"}) is None


def test_a_start_that_takes_long_is_waited_for_and_a_manager_that_is_gone_does_no_harm(manager):
    end, address = manager
    with Notifier(Manager(address, 1.0)):
        first = end.recv(4096).decode().splitlines()
        assert first == ["STATUS=starting: Spark and slots are not there yet", "EXTEND_TIMEOUT_USEC=60000000"]
        end.recv(4096)
    assert messages(end, "STOPPING=1")
    with Notifier(Manager("/nowhere/at/all")):
        pass
