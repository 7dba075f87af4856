"""Silence of a key: gaps between records are found however records are divided into windows."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application
from ridgeline.operators import absence
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local

START = datetime(2026, 1, 1, tzinfo=UTC)


class Beat(NamedTuple):
    device: str
    time: datetime


def expected(records: list[tuple[str, int]], watermark: int) -> list[tuple[str, str, int]]:
    """The gaps of 10 s that a watermark has passed, by a plain loop over sorted times."""
    found = []
    for device in {device for device, _ in records}:
        seconds = sorted(second for name, second in records if name == device)
        for second, after in zip(seconds, [*seconds[1:], 10**9], strict=True):
            if after - second >= 10 and second + 10 <= watermark:
                found.append((device, "absent", second))
            if after - second >= 10 and after <= watermark:
                found.append((device, "present", after))
    return sorted(found)


@pytest.mark.parametrize("per_window", [1, 3, 100])
def test_gaps_that_the_end_of_the_input_settles_are_found(per_window: int) -> None:
    """A list that is read in one window has the gaps that it has in many; the end itself is none."""
    chance, now, records = random.Random(per_window), 0, []
    for _ in range(100):
        now += chance.choice([0, 1, 5, 10, 15])
        records.append((chance.choice("abc"), now - chance.randrange(12)))
    sent: list[Any] = []
    for number, (device, second) in enumerate(records, 1):
        beat = (device, START + timedelta(seconds=second))
        sent += [beat] if number % per_window else [beat, END_WINDOW]
    app = Application("gaps")
    beats = app.read("beats", ListInput(Beat, sent, "time", lateness="12s"))
    pattern = absence("10s", by_clock=False, cleared=True)
    found = beats.sort_within("sorted", key="device").group_by("device").detect("silent", pattern)
    found.write("sink", CollectorSink())
    rows = run_local(app).collected("sink")
    got = sorted((row["device"], row["what"], int((row["since"] - START).total_seconds())) for row in rows)
    newest = {device: max(at for name, at in records if name == device) for device in "abc"}
    between = [one for one in expected(records, 10**8) if one[1] == "present" or one[2] != newest[one[0]]]
    assert [one for one in got if one[1] == "present" or one[2] != newest[one[0]]] == between
    if per_window == 100:
        assert got == between


def test_the_clock_ends_gaps_that_the_watermark_has_not_passed() -> None:
    sent = [("a", START), ("a", START + timedelta(seconds=20)), *[END_WINDOW] * 15]
    app = Application("gaps", window="1s")
    beats = app.read("beats", ListInput(Beat, sent, "time", lateness="12s"))
    found = beats.group_by("device").detect("silent", absence("10s", cleared=True))
    found.write("sink", CollectorSink())
    rows = run_local(app).collected("sink")
    got = [(row["what"], (row["since"] - START).total_seconds()) for row in rows]
    assert got == [("absent", 0.0), ("present", 20.0), ("absent", 20.0)]
