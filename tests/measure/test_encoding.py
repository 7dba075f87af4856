import pytest

from ridgeline.measure.encoding import from_dict, to_dict
from ridgeline.measure.events import SourceProgress


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"event": "Nothing"}, "`Nothing` is no event; known are ApplicationPlanned"),
        ({"event": "WindowStarted", "at": 1.0}, "`WindowStarted.window_id` is missing"),
        (
            {"event": "WindowStarted", "at": "now", "window_id": 1, "attempt": 0},
            "`WindowStarted.at` must be float; got 'now'",
        ),
        (
            {
                "event": "ContainerHeartbeat",
                "at": 1,
                "container": 1,
                "host": "h",
                "pid": 1,
                "sent": 1,
                "operators": [3],
            },
            "must be an object",
        ),
    ],
)
def test_what_does_not_fit_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        from_dict(data)


def test_fields_of_newer_logs_are_ignored():
    event = SourceProgress(1.0, 3, 1, 10.0, None)
    assert from_dict({**to_dict(event), "colour": "red"}) == event
