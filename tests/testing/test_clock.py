import threading
from datetime import UTC, datetime

import pytest

from ridgeline import SystemClock
from ridgeline.testing import SteppingClock


def test_time_does_not_go_back():
    with pytest.raises(ValueError, match=r"^time cannot go back; got -1 seconds$"):
        SteppingClock().advance(-1)


def test_a_start_without_a_time_zone_is_utc():
    assert SteppingClock(datetime(2000, 1, 1)).now() == datetime(2000, 1, 1, tzinfo=UTC)  # noqa: DTZ001


def test_waiting_ends_when_stopped():
    clock, stop = SteppingClock(), threading.Event()
    assert clock.wait(1, stop) is False
    stop.set()
    assert clock.wait(1, stop) is True
    assert clock.monotonic() == 1.0


def test_the_system_s_clock():
    clock = SystemClock()
    before = clock.monotonic()
    assert clock.wait(0.002) is False
    assert clock.monotonic() - before >= 0.002
    assert clock.wait(-1) is False
    assert clock.now().tzinfo is UTC
    assert abs(clock.now().timestamp() - clock.wall()) < 5


def test_waiting_for_the_system_s_clock_ends_when_stopped():
    stop = threading.Event()
    assert SystemClock().wait(0.001, stop) is False
    stop.set()
    assert SystemClock().wait(60, stop) is True
    assert SystemClock().wait(-1, stop) is True
