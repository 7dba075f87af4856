"""What answers of the service look like on a terminal: lists, paths, what runs, and the whole screen."""

from dataclasses import replace

import pytest

from ridgeline.cli import tables
from ridgeline.cli.views.lists import (
    average_phases,
    blame_table,
    info_lines,
    regions_parts,
    watermarks_table,
    window_time_table,
    windows_table,
)
from ridgeline.cli.views.path import (
    average_path,
    critical_path_parts,
    path_text,
    rest_text,
    short_path,
    slack_text,
)
from ridgeline.cli.views.running import (
    progress_parts,
    queue_parts,
    running_line,
    running_lines,
    sources_table,
)
from ridgeline.cli.views.screen import bar, rows_of, screen, sink_ages, sink_lines, together
from ridgeline.measure.changes import row_of
from ridgeline.measure.events import ApplicationChanged
from ridgeline.service.columns import words
from ridgeline.service.tables import TABLES
from support.cli import overviews
from support.cli.overviews import AT, PATH, UNKNOWN, drawn
from support.measure import changing
from support.measure.story import measured, windows

pytestmark = pytest.mark.usefixtures("utc")

# What runs, and what waits ----------------------------------------------------------------------------------

RUNNING = overviews.running_progress()
OPERATOR = RUNNING["operators"][0]
SILENT = {"id": 3, "lastHeartbeatAgeSeconds": 31.4, "silent": True}
LINE = "window 1,235 runs for 20 s, 33% done, at least 41 s left"


def sums(count, **more):
    """So many operators that run."""
    return [{**OPERATOR, "operator": f"sum[{number}]", **more} for number in range(count)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [LINE, "  summing 20 of 60, about 40 s left"]),
        ({"elapsedSeconds": 1.9}, []),
        ({"operators": sums(9)}, ["  sum[3] 20 of 60, about 40 s left", "  and 5 more operators"]),
        ({"containers": [SILENT]}, ["container 3 is silent for 31.4 s"]),
        (
            {
                "window": {"remainingSeconds": None, "fractionDone": None, "basis": "unknown"},
                "operators": [{**OPERATOR, "inputRemaining": UNKNOWN, "remainingSeconds": UNKNOWN}],
            },
            ["window 1,235 runs for 20 s", "  summing 20"],
        ),
    ],
)
def test_a_window_that_runs(changes, expected):
    lines = [line.plain for line in running_lines({**RUNNING, **changes})]
    assert lines[len(lines) - len(expected) :] == expected


def test_the_same_in_one_line():
    assert running_line(RUNNING, after_seconds=5) == f"{LINE}: summing 20 of 60"
    many = {**RUNNING, "operators": sums(5, consumed=None), "containers": [SILENT]}
    assert running_line(many, after_seconds=5).endswith(
        " left: sum[0], sum[1], sum[2], sum[3], 1 more operator; container 3 is silent for 31.4 s"
    )
    assert running_line({**RUNNING, "operators": []}) == LINE
    assert not running_line(RUNNING, after_seconds=20)
    assert not running_line({**RUNNING, "running": False}, after_seconds=5)


def test_the_progress_of_sources():
    assert drawn(*progress_parts(overviews.progress(), 100)) == [
        "source           waits  to drain  oldest  done/s  arrive/s    caught up  verdict",
        "ticks   12,300 records    30.8 s  31.0 s     400        92  at 12:27:20  catching up",
        "no window runs now; the last one was 1,235",
    ]
    narrow = drawn(sources_table({"sources": [overviews.source()]}, 60, AT), width=60)
    assert narrow[0].split() == ["source", "waits", "oldest", "verdict"]
    unknown = {**overviews.source(), "verdict": "unknown", "backlog": UNKNOWN}
    assert sources_table({"sources": [unknown]}, 100, None) is None
    for backlog, unit, expected in (
        ({"value": 5_000_000.0, "basis": "estimated"}, "bytes", "about 4.8 MiB"),
        ({"value": 70.0, "basis": "lower bound"}, "windows", "at least 70 windows"),
        ({"value": 0.0, "basis": "exact"}, None, "0 units"),
        ({"value": None, "basis": "exact", "infinite": True}, "records", "unbounded"),
        (UNKNOWN, "records", "-"),
    ):
        source = {**overviews.source(), "backlog": backlog, "unit": unit}
        assert expected in drawn(sources_table({"sources": [source]}, 100, AT))[1]


# Lists ------------------------------------------------------------------------------------------------------


def test_what_sliders_hold_is_a_column_where_any_holds_something():
    rows = measured(*windows(3)).operators(3.0)
    assert "held" not in drawn(tables.drawn(TABLES["operators"], rows, 160), width=160)[0].split()
    rows[1]["heldBytes"] = 4_000_000
    rows[1]["lastStateWritten"], rows[1]["lastStateSeconds"] = 7.0, 0.75
    lines = drawn(tables.drawn(TABLES["operators"], rows, 160), width=160)
    assert lines[0].split()[-1] == "held"
    assert "errors" in lines[0].split()
    assert [line.split("  ")[-1].strip() for line in lines[1:]] == ["0 B", "3.8 MiB", "0 B"]
    assert "state written" in lines[0]
    assert "750 ms" in lines[2]
    assert "held" not in drawn(tables.drawn(TABLES["operators"], rows, 60), width=60)[0].split()


def test_windows_name_their_plan_where_it_has_changed():
    measurement = measured()
    for event in changing.run():
        measurement.apply(event)
    of_all = drawn(windows_table(measurement.windows(), 160), width=160)
    assert [line.split()[-1] for line in of_all] == ["plan"] + ["1"] * 4 + ["2"] * 4 + ["3"] * 4
    assert "plan" not in drawn(windows_table(measurement.windows(4), 160), width=160)[0].split()
    assert "  planVersion              3" in drawn(*info_lines(measurement.info(12.0), 160), width=160)


def test_watermarks_say_who_holds_an_operator_back_and_what_is_idle_late_or_ahead():
    row = {
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
    waiting = {**row, "operator": "sink", "state": "waiting", "watermark": None, "lagSeconds": None}
    text = "\n".join(drawn(watermarks_table([row, waiting], 120), width=120))
    for part in ("2026-01-01 00:00:05", "source[0], source[1] and 1 more", "waiting"):
        assert part in text
    assert not {"idle", "ahead"} & set(text.split())
    odd = {**row, "idleInputs": ["other"], "lateRecords": 12, "recordsAhead": 3, "lagSeconds": -5.0}
    text = "\n".join(drawn(watermarks_table([odd], 120), width=120))
    assert all(part in text for part in ("idle", "other", "late", "12", "ahead", "3", "-5"))


def test_where_the_time_of_windows_goes():
    phases = [
        {"phases": {"launch": 30.0, "compute": 40.0, "commit": 5.0}},
        {"phases": {"launch": 10.0, "compute": 60.0, "state": 5.0}},
    ]
    assert average_phases(phases) == {"launch": 20.0, "compute": 50.0, "commit": 2.5, "state": 2.5}
    assert drawn(window_time_table(phases, 100)) == [
        "what            time  share",
        "compute        50 ms    67%",
        "sending time   20 ms    27%",
        "commit        2.5 ms     3%",
        "state files   2.5 ms     3%",
        "window         75 ms",
    ]
    small = [{"what": "other", "operator": "", "ms": 0.25}] * 4
    assert drawn(blame_table([{"what": "compute", "operator": "a", "ms": 99.0}, *small], 100)) == [
        "what           operator    time  share",
        "compute        a          99 ms    99%",
        "4 small steps            1.0 ms     1%",
        "window                   100 ms",
    ]


def test_of_very_many_rows_the_last_are_counted(monkeypatch):
    monkeypatch.setattr(tables, "_MOST_ROWS", 10)
    rows = [{"operator": f"count_{row}"} for row in range(1_040)]
    lines = drawn(tables.drawn([words("operator", "operator")], rows, 40), width=40)
    assert [line.strip() for line in lines[-2:]] == ["count_9", "… 1,030 more"]


# Regions ----------------------------------------------------------------------------------------------------

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
    "fullInSeconds": 3_592.0,
}


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
    failed = region("slow", "FAILED", "the disk is gone", reads=[QUEUE, {**QUEUE, "full": True}])
    shown = regions_parts({"sentence": sentence, "regions": [region("ticks"), failed]}, 160)
    lines = drawn(*shown, width=160)
    assert lines[0] == sentence
    assert lines[3].split() == ["slow", "FAILED", "100", "ms", "196", "14", "ms", "slow,", "sink"]
    assert "slow: the disk is gone" in lines
    queue = "prices ticks slow 16,000 390.6 KiB 9.78 s 2,000 0 59 min 52 s falling behind"
    assert " ".join(lines[-2].split()) == queue
    assert lines[-1].endswith("full  falling behind")
    lines = drawn(*queue_parts({"queues": [QUEUE]}, 160), width=160)
    assert lines[2].startswith("prices")
    assert queue_parts({}, 160) == []


def step(title, ms, **more):
    times = {"latencyMs": ms, "computeMs": ms, "cpuMs": ms, "transferMs": 0.0}
    return {"operator": title, "id": 1, **times, **more}


def test_a_path_through_a_queue():
    path = {
        "windowId": 17,
        "region": "slow",
        "windows": {"ticks": 69, "slow": 17},
        "latencyMs": 831.0,
        "path": [step("ticks", 1.0), step("waits in queue prices", 426.0, kind="queue"), step("slow", 404.0)],
        "slack": {},
        "blame": [{"what": "queue", "operator": "waits in queue prices", "ms": 426.0}],
        "average": {"latencyMs": 831.0, "path": ["ticks", "waits in queue prices", "slow"]},
        "share": {"ticks": 1.0, "slow": 0.5},
        "windowLatencyMs": 2140.0,
    }
    assert path_text(path, 200).plain == (
        "critical path ticks 1.0 ms > waits in queue prices 426 ms > slow 404 ms = 831 ms "
        "of 2.14 s from the first trigger to the last commit"
    )
    lines = drawn(*critical_path_parts(path, 160), width=160)
    assert lines[0] == "window 69 of ticks, window 17 of slow"
    text = "\n".join(lines)
    for part in (
        "on average ticks (100%) > waits in queue prices > slow (50%) = 831 ms",
        "what results waited for, from the first trigger to the last commit:",
        "waiting in a queue",
    ):
        assert part in text


# Paths and phases -------------------------------------------------------------------------------------------


def long_path(count):
    return {**PATH, "path": [step(f"operator{number}", 1.0) for number in range(count)]}


def test_a_long_path_loses_its_middle_and_its_costliest_step_stays():
    text = path_text(PATH, 100)
    assert [text.plain[one.start : one.end] for one in text.spans if one.style == "bold red"] == ["quote[1]"]
    assert path_text(long_path(30), 1000).plain.startswith(
        "critical path operator0 1.0 ms > operator1 1.0 ms > operator2 1.0 ms > operator3 1.0 ms > ... 22 "
        "more ... > operator26 1.0 ms"
    )
    assert short_path(long_path(30)) == "46 ms operator0 > operator1 > ... > operator28 > operator29"
    assert short_path(long_path(2)) == "46 ms operator0 > operator1"
    path = long_path(30)
    path["path"][13]["latencyMs"] = 40.0
    assert "> operator13 40 ms >" in path_text(path, 1000).plain
    assert short_path(path) == "46 ms operator0 > operator1 > ... > operator13 > ... > operator29"


def test_the_rest_of_a_window_and_slack():
    assert rest_text(PATH, 100).plain == "the rest sending time 30 ms, commit 25 ms, planning 2.0 ms"
    small = [{"what": what, "operator": "", "ms": ms} for what, ms in (("stage", 0.5), ("retries", 0.1))]
    text = rest_text({**PATH, "blame": [*PATH["blame"], *small]}, 100).plain
    assert text == "the rest sending time 30 ms, commit 25 ms, planning 2.0 ms, 2 more 0.6 ms"
    assert slack_text(PATH, 100).plain == "slack quote[0] 12 ms, sma 36 ms"
    many = {**PATH, "slack": {f"o{number}": float(number) for number in range(9, 0, -1)}}
    expected = "slack o1 1.0 ms, o2 2.0 ms, o3 3.0 ms, o4 4.0 ms, o5 5.0 ms and 4 more"
    assert slack_text(many, 100).plain == expected
    text = average_path(PATH, {"ticks": 4.0, "quote[1]": 43.0, "console": 3.0}, 100)
    assert text.plain == "ticks 4.0 ms (100%) > quote[1] 43 ms (96%) > console 3.0 ms (100%) = 50 ms"


def test_all_of_a_critical_path():
    assert drawn(*critical_path_parts(PATH, 100)) == [
        "window 1,234",
        "critical path ticks 3.0 ms > quote[1] 41 ms > console 2.0 ms = 46 ms of 97 ms window",
        "the rest sending time 30 ms, commit 25 ms, planning 2.0 ms",
        "slack quote[0] 12 ms, sma 36 ms",
        "on average ticks (100%) > quote[1] (96%) > console (100%) = 50 ms",
        "",
        "what the window waited for, from its trigger to its commit:",
        "what          operator    time  share",
        "planning                2.0 ms     2%",
        "sending time             30 ms    31%",
        "compute       quote[1]   40 ms    41%",
        "commit                   25 ms    26%",
        "window                   97 ms",
    ]
    nothing = {"path": [], "slack": {}, "blame": [], "average": {"latencyMs": None, "path": []}}
    nothing = {**PATH, **nothing}
    assert not any(draw(nothing, 100) for draw in (path_text, rest_text, slack_text))
    assert drawn(*critical_path_parts(nothing, 100)) == ["no window is committed yet"]
    assert short_path(nothing) == ""


# The whole screen -------------------------------------------------------------------------------------------


def drawn_screen(width, height=None, own=None, **changes):
    return drawn(*screen(overviews.overview(**changes), width, height, own), width=width)


def test_at_100_and_160():
    behind = "catching up: 12,300 records wait at ticks, caught up in 40 s"
    lines = [
        f"{behind}; 99% of records are younger than 350 ms",
        "at sma and 300 ms at console; a window takes 97 ms, 42% of it quote[1]",
        "window 1,234  latency 97 ms  late 3.0 ms  in/s 4,000  out/s 4,000",
        "critical path ticks 3.0 ms > quote[1] 41 ms > console 2.0 ms = 46 ms of 97 ms window",
        "the rest sending time 30 ms, commit 25 ms, planning 2.0 ms",
        "operator  partitions  latency     p50     p99  where it goes          in/s  out/s  errors",
        "ticks              1   3.0 ms  2.7 ms  6.0 ms  █                         0  4,000       0",
        "quote              2    60 ms   54 ms  120 ms  █████████████░░░░░▒▒  4,000    0.5       7",
        "console            1   2.0 ms  1.8 ms  4.0 ms  █                       0.5      0       0",
        "sma                1   6.0 ms  5.4 ms   12 ms  ░░                    4,000      0       0",
        "█ compute  ░ wait  ▒ transfer",
        "record age at sma, committed: avg 120 ms, p99 350 ms",
        "record age at console, committed: avg 120 ms, p99 300 ms",
        "source           waits  to drain  oldest  done/s  arrive/s           caught up  verdict",
        "ticks   12,300 records    30.8 s  31.0 s     400        92  in 40 s (12:27:20)  catching up",
    ]
    assert drawn_screen(100) == lines
    assert drawn_screen(160)[2:] == lines[2:]
    assert drawn_screen(100, progress=RUNNING)[-2:] == [LINE, "  summing 20 of 60, about 40 s left"]


def test_at_60_lines_are_broken_and_columns_left_out():
    lines = drawn_screen(60)
    assert lines[5:7] == [
        "critical path ticks 3.0 ms > quote[1] 41 ms > console 2.0 ms",
        "  = 46 ms of 97 ms window",
    ]
    assert "operator  latency     p99   in/s  errors" in lines
    assert lines[-1] == "ticks   12,300 records  31.0 s  catching up"


def test_on_a_low_terminal_the_slowest_operators_stay():
    lines = drawn_screen(100, height=14)
    table = lines[next(number for number, line in enumerate(lines) if line.startswith("operator")) + 1 :]
    assert [line.split()[0] for line in table[:3]] == ["ticks", "quote", "sma"]
    assert table[3].endswith("1 more with less latency: `ridgeline operators`")


def test_what_is_not_known_is_left_out_and_names_are_no_markup():
    nothing = {**PATH, "windowLatencyMs": None, "path": [], "blame": []}
    unknown = overviews.progress(verdict="unknown", backlogRecords=None, backlogSeconds=None)
    changes = {"window": None, "criticalPath": nothing, "recordAge": {"operators": []}}
    lines = drawn_screen(100, **changes, progress={**unknown, "sources": []})
    assert lines[:2] == [
        "running: how much waits at the sources is not known",
        "window 1,234  latency -  in/s 4,000  out/s 4,000",
    ]
    assert len(lines) == 8
    odd = [overviews.operator(1, "[bold]x[/]", "input", 1.0, (1.0, 0.0, 0.0), (1.0, 1.0))]
    assert any("[bold]x[/]" in line for line in drawn_screen(100, operators=odd))


def test_the_newest_change_stands_above_for_a_minute():
    what = "repartition `quote` to 3"
    event = ApplicationChanged(AT - 59.0, 2, "ann", "", what, "REFUSED", reason="it slides")
    line = f"change 2 is refused: it slides: {what}, asked for by ann"
    assert drawn_screen(100, change=row_of(event))[3] == line
    assert line not in drawn_screen(100, change={**row_of(event), "since": AT - 61.0})
    waiting = replace(event, state="QUEUED", reason="window 120 is awaited", at=AT - 3600.0)
    assert drawn_screen(100, change=row_of(waiting))[3].startswith("change 2 waits: window 120 is awaited")
    assert len(drawn_screen(100, height=15, change=row_of(event))) <= 15


def metric(name, value, total=None, unit=""):
    kind = "gauge" if total is None else "counter"
    row = {"operator": "quote", "metric": name, "kind": kind, "value": value, "total": total, "unit": unit}
    return {**row, "windowId": 3}


def test_metrics_of_operators_in_two_lines_at_most():
    few = {"metrics": [metric("open", 3.0), metric("bad", 1.0, 1234.0, "records")]}
    assert "quote.open 3  quote.bad 1,234 records" in drawn_screen(100, own=few)
    many = {"metrics": [metric(f"m{number}", float(number)) for number in range(50)]}
    for width in (60, 100):
        lines = drawn_screen(width, 20, many)
        assert len(lines) <= 20
        assert max(map(len, lines)) <= width
        assert any("more: `ridgeline metrics`" in line for line in lines)
    assert drawn_screen(100) == drawn_screen(100, own={"metrics": []})


def test_partitions_are_one_row_whose_times_are_the_slowest_ones():
    quote = rows_of(overviews.operators())[1]
    of = ("operator", "partitions", "latencyMs", "p99Ms")
    assert [quote[name] for name in of] == ["quote", 2, 60.0, 120.0]
    assert [quote[name] for name in ("computeMs", "waitMs", "transferMs")] == [40.0, 15.0, 5.0]
    of = ("tuplesProcessedPSMA", "tuplesEmittedPSMA", "errors")
    assert [quote[name] for name in of] == [4000.0, 0.5, 7]
    named = [
        {**overviews.operators()[0], "operator": title}
        for title in ("top", "top.x#unifier[0]", "top.x#unifier[1]")
    ]
    found = [(row["operator"], row["partitions"]) for row in rows_of(named)]
    assert found == [("top", 1), ("top.x#unifier", 2)]
    times = ("latencyMs", "computeMs", "waitMs", "transferMs", "p50Ms", "p99Ms", "tuplesProcessedPSMA")
    [row] = rows_of([{**overviews.operators()[0], **dict.fromkeys((*times, "windowsBehind"))}])
    assert (row["latencyMs"], row["p50Ms"], row["tuplesProcessedPSMA"]) == (None, None, 0.0)
    assert not bar(row, 100.0).plain.strip()


def test_ages_of_partitions_are_put_together_and_many_sinks_are_counted():
    [merged] = together(
        [
            overviews.age("sink[0]", "commit", 1, average=100.0, count=30),
            overviews.age("sink[1]", "commit", 2, average=200.0, p99=900.0),
        ]
    )
    assert (merged["operator"], merged["avgMs"]) == ("sink", (100 * 30 + 200 * 10) / 40)
    assert (merged["p99Ms"], merged["count"], merged["minMs"]) == (900.0, 40, 10.0)
    silent = {name: None for name in merged if name.endswith("Ms")}
    ages = {"operators": [{**overviews.age("sink", "commit", 1, count=0), **silent}]}
    assert drawn(*sink_lines(ages)) == ["record age at sink, committed: avg -, p99 -"]
    many = [overviews.age(f"sink{number}", "commit", number, p99=float(number)) for number in range(9)]
    lines = [line.split(",")[0] for line in drawn(*sink_lines({"operators": many}, limit=2))]
    assert lines == ["record age at sink8", "record age at sink7", "and 7 more sinks"]
    assert len(sink_ages({"operators": many})) == 9
