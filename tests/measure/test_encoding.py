import json

import pytest

from ridgeline.measure.encoding import from_dict, to_dict
from ridgeline.measure.events import (
    AgeSample,
    ApplicationPlanned,
    ContainerHeartbeat,
    OperatorWindow,
    OutputPublished,
    RunningOperator,
    SourceProgress,
)
from ridgeline.measure.topology import chain

EVENTS = [
    ApplicationPlanned(1.0, "a", "id", 0, 1.0, chain("A", "B"), {"windows_kept": 5}, {"user": "x"}),
    ContainerHeartbeat(
        1.0, 1, "h", 2, 3.0, 4, 0, 1.0, (RunningOperator(1, "running", 1.0, {"a": 1}, work=(1.0, None)),)
    ),
    OperatorWindow(
        1.0,
        3,
        0,
        1,
        0,
        "h",
        1.0,
        2.0,
        0.5,
        0.0,
        0.5,
        {"in": 2},
        {},
        ages=(AgeSample("emit", "INFO", 2, 0, 0.1, 0.2, 0.3, 0.2, ((7, 2),)),),
    ),
    SourceProgress(1.0, 3, 1, 10.0, None),
    OutputPublished(1.0, "sink", 3),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_json(event):
    assert from_dict(json.loads(json.dumps(to_dict(event)))) == event


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
    assert from_dict({**to_dict(EVENTS[3]), "colour": "red"}) == EVENTS[3]
