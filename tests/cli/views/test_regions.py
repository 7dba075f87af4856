"""Regions and queues as tables; paths and verdicts of several regions."""

from ridgeline.cli.views.path import critical_path_parts, path_text
from ridgeline.cli.views.queues import queue_parts
from ridgeline.cli.views.regions import regions_parts
from ridgeline.cli.views.verdict import verdict_line
from support.cli import overviews

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


def drawn(parts):
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
    lines = drawn(regions_parts({"sentence": sentence, "regions": [region("ticks"), failed]}, 160))
    assert lines[0] == sentence
    assert lines[3].split() == ["slow", "FAILED", "100", "ms", "196", "14", "ms", "slow,", "sink"]
    assert "slow: the disk is gone" in lines
    assert lines[-1].split() == (
        "prices ticks slow 16,000 390.6 KiB 9.78 s 2,000 0 59 min 52 s falling behind".split()  # noqa: SIM905
    )


def test_a_full_queue_says_so():
    row = region("slow", reads=[{**QUEUE, "full": True}])
    assert "full  falling behind" in drawn(regions_parts({"sentence": "", "regions": [row]}, 160))[-1]


def test_progress_has_queues_and_sinks():
    sink = {
        "operator": "store",
        "region": "slow",
        "backlogRecords": 16_000,
        "backlogSeconds": None,
        "caughtUpAt": None,
        "verdict": "falling behind",
    }
    lines = drawn(queue_parts({"queues": [QUEUE], "sinks": [sink]}, 160, None))
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
    lines = drawn(critical_path_parts(path, 160))
    text = "\n".join(lines)
    assert lines[0] == "window 69 of ticks, window 17 of slow"
    assert "on average ticks (100%) > waits in queue prices > slow (50%) = 831 ms" in text
    assert "what results waited for, from the first trigger to the last commit:" in text
    assert "waiting in a queue" in text
