import math
from typing import Any

import pytest

from ridgeline.api.support.duration import parse_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("200ms", 0.2),
        ("1s", 1.0),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("0", 0.0),
        (0, 0.0),
        (0.5, 0.5),
        (2, 2.0),
        (" 1.5 s ", 1.5),
        ("0.25", 0.25),
    ],
)
def test_durations(value: Any, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value", ["", "s", "5 parsecs", "-1s", "1s1", "1e3s", None, True, math.nan, math.inf, [1], "1 y"]
)
def test_no_durations(value: Any) -> None:
    with pytest.raises(
        ValueError,
        match='is not a duration; give a number of seconds, or a text such as "200ms", "1s", "5m" or "1h"',
    ):
        parse_duration(value)


def test_negative() -> None:
    with pytest.raises(ValueError, match=r"-0\.5 is less than 0; give a number of seconds"):
        parse_duration(-0.5)
