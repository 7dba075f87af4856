"""Outputs that are done ask to leave the plan: once, and again after a while if they were refused."""

from unittest.mock import Mock

from ridgeline.engine.driver.run.changes import Changes
from ridgeline.testing import SteppingClock


def test_an_output_asks_again_after_a_minute_if_it_was_refused():
    clock, refused = SteppingClock(), []
    changes = Changes(clock.wall, 0, refused.append, None, Mock(), lambda _transition: None)
    over = {"recording": "it has all that it was asked for"}
    changes.ask_to_leave(over)
    clock.advance(120)
    changes.ask_to_leave(over)
    (first,) = changes.take()
    assert first.change.by == "ridgeline"
    changes.refuse(first, "a reader of it is not removed")
    assert refused == [first]
    changes.ask_to_leave(over)
    (again,) = changes.take()
    assert again.text == first.text
    changes.refuse(again, "a reader of it is not removed")
    clock.advance(59)
    changes.ask_to_leave(over)
    assert not changes.take()
    clock.advance(1)
    changes.ask_to_leave(over)
    assert len(changes.take()) == 1
    changes.ask_to_leave({})
    changes.ask_to_leave(over)
    assert len(changes.take()) == 1
    changes.close()
