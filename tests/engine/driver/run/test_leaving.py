"""Outputs that are done ask to leave the plan: once, and again after a while if they were refused."""

from unittest.mock import Mock

from ridgeline.engine.driver.run.changes import Changes
from ridgeline.testing import SteppingClock

OVER = {"recording": "it has all that it was asked for"}


class SetForth(SteppingClock):
    """Its wall clock can be set; the monotonic clock goes on."""

    ahead = 0.0

    def wall(self):
        return super().wall() + self.ahead


def made(clock, refused):
    return Changes(clock, 0, refused.append, None, Mock(), lambda _transition: None)


def test_an_output_asks_again_after_a_minute_if_it_was_refused():
    clock, refused = SteppingClock(), []
    changes = made(clock, refused)
    changes.ask_to_leave(OVER)
    clock.advance(120)
    changes.ask_to_leave(OVER)
    (first,) = changes.take()
    assert first.by == "ridgeline"
    changes.refuse(first, "a reader of it is not removed")
    assert refused == [first]
    changes.ask_to_leave(OVER)
    (again,) = changes.take()
    assert again.text == first.text
    changes.refuse(again, "a reader of it is not removed")
    clock.advance(59)
    changes.ask_to_leave(OVER)
    assert not changes.take()
    clock.advance(1)
    changes.ask_to_leave(OVER)
    assert len(changes.take()) == 1
    changes.ask_to_leave({})
    changes.ask_to_leave(OVER)
    assert len(changes.take()) == 1
    changes.close()


def test_a_wall_clock_that_is_set_does_not_decide_when_it_asks_again():
    clock, refused = SetForth(), []
    changes = made(clock, refused)
    changes.ask_to_leave(OVER)
    changes.refuse(*changes.take(), "a reader of it is not removed")
    clock.ahead = 3600
    changes.ask_to_leave(OVER)
    assert not changes.take()
    clock.ahead = -3600
    clock.advance(60)
    changes.ask_to_leave(OVER)
    assert len(changes.take()) == 1
    changes.close()
