"""Lists of operators and windows."""

from typing import Any

import pytest

from ridgeline.cli.views.lists import (
    average_phases,
    blame_table,
    info_lines,
    operators_list,
    regions_parts,
    watermarks_table,
    window_time_table,
    windows_table,
)
from ridgeline.cli.views.path import critical_path_parts, path_text
from ridgeline.cli.views.running import queue_parts, verdict_line
from support.cli import overviews
from support.measure import changing
from support.measure.story import measured, windows

pytestmark = pytest.mark.usefixtures("utc")


def drawn(*parts, width=160):
    return overviews.drawn(*parts, width=width)


def test_what_sliders_hold_is_a_column_where_any_holds_something():
    rows = measured(*windows(3)).operators(3.0)
    assert "held" not in drawn(operators_list(rows, 160))[0].split()
    rows[1]["heldBytes"] = 4_000_000
    lines = drawn(operators_list(rows, 160))
    assert lines[0].split()[-1] == "held"
    assert [line.split("  ")[-1].strip() for line in lines[1:]] == ["0 B", "3.8 MiB", "0 B"]
    assert "held" not in drawn(operators_list(rows, 60), width=60)[0].split()


def test_windows_name_their_plan_where_it_has_changed():
    measurement = measured()
    for event in changing.run():
        measurement.apply(event)
    of_all = drawn(windows_table(measurement.windows(), 160))
    assert of_all[0].split()[-1] == "plan"
    assert [line.split()[-1] for line in of_all[1:]] == ["1"] * 4 + ["2"] * 4 + ["3"] * 4
    assert "plan" not in drawn(windows_table(measurement.windows(4), 160))[0].split()
    assert "  plan        version 3" in drawn(*info_lines(measurement.info(12.0), 160))


def row(**more: Any) -> Any:
    known = {
        "operator": "windowed[0]",
        "id": 3,
        "state": "running",
        "watermark": 1_767_225_605.0,
        "lagSeconds": 7.0,
        "heldBackBy": ["source[0]", "source[1]", "source[2]"],
        "idleInputs": [],
        "lateRecords": 0,
        "recordsAhead": 0,
    }
    return {**known, **more}


def shown(*rows: Any) -> str:
    return "\n".join(overviews.drawn(watermarks_table(rows, 120), width=120))


def test_it_says_who_holds_an_operator_back() -> None:
    text = shown(row(), row(operator="sink", state="waiting", watermark=None, lagSeconds=None))
    assert "2026-01-01 00:00:05" in text
    assert "source[0], source[1] and 1 more" in text
    assert "waiting" in text
    assert "idle" not in text
    assert "ahead" not in text


def test_it_shows_what_is_idle_late_or_ahead() -> None:
    text = shown(row(idleInputs=["other"], lateRecords=12, recordsAhead=3, lagSeconds=-5.0))
    assert all(part in text for part in ("idle", "other", "late", "12", "ahead", "3", "-5"))


WINDOWS = [
    {"phases": {"launch": 30.0, "compute": 40.0, "commit": 5.0}},
    {"phases": {"launch": 10.0, "compute": 60.0, "read": 5.0}},
]


def test_phases_add_up_to_the_mean_latency():
    assert average_phases(WINDOWS) == {"launch": 20.0, "compute": 50.0, "commit": 2.5, "read": 2.5}
    assert sum(average_phases(WINDOWS).values()) == pytest.approx((75 + 75) / 2)


def test_the_most_comes_first_and_the_sum_last():
    assert overviews.drawn(window_time_table(WINDOWS, 100)) == [
        "what            time  share",
        "compute        50 ms    67%",
        "Spark launch   20 ms    27%",
        "commit        2.5 ms     3%",
        "reading       2.5 ms     3%",
        "window         75 ms",
    ]


def test_small_steps_of_a_blame_chain_are_put_together():
    blame = [
        {"what": "compute", "operator": "a", "ms": 99.0},
        *({"what": "other", "operator": "", "ms": 0.25} for _ in range(4)),
    ]
    assert overviews.drawn(blame_table(blame, 100)) == [
        "what           operator    time  share",
        "compute        a          99 ms    99%",
        "4 small steps            1.0 ms     1%",
        "window                   100 ms",
    ]


QUEUE = {
    "stream": "prices",
    "writer": "prices_queue",
    "writerRegion": "ticks",
    "reader": "prices_to_slow",
    "readerRegion": "slow",
    "backlogRecords": 16_000,
    "backlogBytes": 400_000,
    "backlogSeconds": 9.78,
    "writtenPerSecond": 2_000.0,
    "readPerSecond": 0.0,
    "caughtUpAt": None,
    "verdict": "falling behind",
    "full": False,
    "fullAt": 1_700_003_592.0,
    "fullInSeconds": 3_592.0,
    "keepSeconds": 3600.0,
    "keepBytes": 2**30,
}


def drawn_regions(parts):
    """The lines, without blanks at their ends."""
    return [line.rstrip() for line in overviews.drawn(*parts, width=160)]


def region(name, state="RUNNING", error="", **ends):
    return {
        "name": name,
        "number": 0,
        "state": state,
        "error": error,
        "operators": [name, "sink"],
        "windowSeconds": 0.1,
        "committedWindow": 196,
        "latencyMs": 14.0,
        "reads": [],
        "writes": [],
        **ends,
    }


def test_regions_with_their_queues():
    sentence = "falling behind: region slow has failed (the disk is gone)"
    failed = region("slow", "FAILED", "the disk is gone", reads=[QUEUE])
    lines = drawn_regions(regions_parts({"sentence": sentence, "regions": [region("ticks"), failed]}, 160))
    assert lines[0] == sentence
    assert lines[3].split() == ["slow", "FAILED", "100", "ms", "196", "14", "ms", "slow,", "sink"]
    assert "slow: the disk is gone" in lines
    assert lines[-1].split() == (
        "prices ticks slow 16,000 390.6 KiB 9.78 s 2,000 0 59 min 52 s falling behind".split()  # noqa: SIM905
    )


def test_a_full_queue_says_so():
    row = region("slow", reads=[{**QUEUE, "full": True}])
    assert "full  falling behind" in drawn_regions(regions_parts({"sentence": "", "regions": [row]}, 160))[-1]


def test_progress_has_queues_and_sinks():
    sink = {
        "operator": "store",
        "region": "slow",
        "backlogRecords": 16_000,
        "backlogSeconds": None,
        "caughtUpAt": None,
        "verdict": "falling behind",
    }
    lines = drawn_regions(queue_parts({"queues": [QUEUE], "sinks": [sink]}, 160, None))
    assert lines[2].startswith("prices")
    assert lines[-1].split() == ["store", "slow", "16,000", "-", "-", "falling", "behind"]
    assert queue_parts({}, 160, None) == []


def test_sentence_comes_before_the_verdict():
    line = verdict_line({"sentence": "keeping up: all is well", "application": {}}, None)
    assert line.plain == "keeping up: all is well"
    assert line.spans[0].style == "bold green"


def step(title, ms, **more):
    return {
        "operator": title,
        "id": 1,
        "latencyMs": ms,
        "computeMs": ms,
        "cpuMs": ms,
        "transferMs": 0.0,
        **more,
    }


def test_path_through_a_queue():
    path = {
        "windowId": 17,
        "region": "slow",
        "windows": {"ticks": 69, "slow": 17},
        "latencyMs": 831.0,
        "path": [step("ticks", 1.0), step("waits in queue prices", 426.0, kind="queue"), step("slow", 404.0)],
        "slack": {},
        "blame": [{"what": "queue", "operator": "waits in queue prices", "ms": 426.0}],
        "held": [],
        "average": {"latencyMs": 831.0, "path": ["ticks", "waits in queue prices", "slow"]},
        "share": {"ticks": 1.0, "slow": 0.5},
        "windowLatencyMs": 2140.0,
        "explained": {"windowLatencyMs": 2140.0, "criticalPathMs": 831.0, "rest": {}},
    }
    assert path_text(path, 200).plain == (
        "critical path ticks 1.0 ms > waits in queue prices 426 ms > slow 404 ms = 831 ms "
        "of 2.14 s from the first trigger to the last commit"
    )
    lines = drawn_regions(critical_path_parts(path, 160))
    text = "\n".join(lines)
    assert lines[0] == "window 69 of ticks, window 17 of slow"
    assert "on average ticks (100%) > waits in queue prices > slow (50%) = 831 ms" in text
    assert "what results waited for, from the first trigger to the last commit:" in text
    assert "waiting in a queue" in text
