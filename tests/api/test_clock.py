import threading
from datetime import UTC

from ridgeline import SystemClock


def test_the_system_s_clock():
    clock = SystemClock()
    before = clock.monotonic()
    assert clock.wait(0.002) is False
    assert clock.monotonic() - before >= 0.002
    assert clock.wait(-1) is False
    assert clock.now().tzinfo is UTC
    assert abs(clock.now().timestamp() - clock.wall()) < 5


def test_waiting_ends_when_stopped():
    stop = threading.Event()
    assert SystemClock().wait(0.001, stop) is False
    stop.set()
    assert SystemClock().wait(60, stop) is True
    assert SystemClock().wait(-1, stop) is True
