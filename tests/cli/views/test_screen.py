"""The whole screen at three widths, to the letter."""

from dataclasses import replace

import pytest
from rich.text import Text

from ridgeline.cli.views.screen import (
    ages_table,
    rows_of,
    screen,
    sink_ages,
    sink_lines,
    together,
)
from ridgeline.measure.changes import row_of
from ridgeline.measure.events import ApplicationChanged
from support.cli import overviews

pytestmark = pytest.mark.usefixtures("utc")


BEHIND = "catching up: 12,300 records wait at ticks, caught up in 40 s"


def drawn(width, height=None, **changes):
    return overviews.drawn(*screen(overviews.overview(**changes), width, height), width=width)


def test_at_100():
    assert drawn(100) == [
        f"{BEHIND}; 99% of records are younger than 350 ms",
        "at sma and 300 ms at console; a window takes 97 ms, 42% of it quote[1]",
        "window 1,234  latency 97 ms  late 3.0 ms  in/s 4,000  out/s 4,000",
        "critical path ticks 3.0 ms > quote[1] 41 ms > console 2.0 ms = 46 ms of 97 ms window",
        "the rest Spark launch 30 ms, waiting for others 12 ms, commit 9.0 ms",
        "operator  partitions  latency     p50     p99  where it goes          in/s  out/s  errors",
        "ticks              1   3.0 ms  2.7 ms  6.0 ms  █                         0  4,000       0",
        "quote              2    60 ms   54 ms  120 ms  █████████████░░░░░▒▒  4,000    0.5       7",
        "console            1   2.0 ms  1.8 ms  4.0 ms  █                       0.5      0       0",
        "sma                1   6.0 ms  5.4 ms   12 ms  ░░                    4,000      0       0",
        "█ compute  ░ wait  ▒ transfer",
        "record age at sma, committed: avg 120 ms, p99 350 ms",
        "record age at console, committed: avg 120 ms, p99 300 ms",
        "source           waits  in time  taken/s  arrive/s           caught up  verdict",
        "ticks   12,300 records   30.8 s      400        92  in 40 s (12:27:20)  catching up",
    ]


def test_at_60():
    assert drawn(60) == [
        "catching up: 12,300 records wait at ticks, caught up in 40",
        "s; 99% of records are younger than 350 ms at sma and 300 ms",
        "at console; a window takes 97 ms, 42% of it quote[1]",
        "window 1,234  latency 97 ms  late 3.0 ms  in/s 4,000",
        "out/s 4,000",
        "critical path ticks 3.0 ms > quote[1] 41 ms > console 2.0 ms",
        "  = 46 ms of 97 ms window",
        "the rest Spark launch 30 ms, waiting for others 12 ms,",
        "  commit 9.0 ms",
        "operator  latency     p99   in/s  errors",
        "ticks      3.0 ms  6.0 ms      0       0",
        "quote       60 ms  120 ms  4,000       7",
        "console    2.0 ms  4.0 ms    0.5       0",
        "sma        6.0 ms   12 ms  4,000       0",
        "record age at sma, committed: avg 120 ms, p99 350 ms",
        "record age at console, committed: avg 120 ms, p99 300 ms",
        "source           waits           caught up  verdict",
        "ticks   12,300 records  in 40 s (12:27:20)  catching up",
    ]


def test_at_160_there_is_nothing_more():
    assert drawn(160)[2:] == drawn(100)[2:]


def test_a_long_window_shows_what_runs():
    assert drawn(100, progress=overviews.running_progress())[-2:] == [
        "window 1,235 runs for 20 s, 33% done, at least 41 s left",
        "  summing 20 of 60, about 40 s left",
    ]


def test_on_a_low_terminal_the_slowest_operators_stay():
    lines = drawn(100, height=14)
    table = lines[lines.index(next(line for line in lines if line.startswith("operator"))) + 1 :]
    assert [line.split()[0] for line in table[:3]] == ["ticks", "quote", "sma"]
    assert table[3] == "█ compute  ░ wait  ▒ transfer  1 more with less latency: `ridgeline list-operators`"


def test_what_is_not_known_is_left_out():
    nothing = {**overviews.PATH, "windowLatencyMs": None, "path": [], "explained": {"rest": {}}}
    unknown = overviews.progress(verdict="unknown", backlogRecords=None, backlogSeconds=None)
    unknown = {**unknown, "sources": []}
    changes = {"window": None, "criticalPath": nothing, "recordAge": {"operators": []}}
    lines = drawn(100, **changes, progress=unknown)
    assert lines[:3] == [
        "running: how much waits at the sources is not known",
        "window 1,234  latency -  in/s 4,000  out/s 4,000",
        "operator  partitions  latency     p50     p99  where it goes          in/s  out/s  errors",
    ]
    assert len(lines) == 8


def test_all_is_drawn_as_text_that_needs_no_markup():
    odd = [overviews.operator(1, "[bold]x[/]", "input", 1.0, (1.0, 0.0, 0.0), (1.0, 1.0))]
    assert any("[bold]x[/]" in line for line in drawn(100, operators=odd))
    assert all(isinstance(part, Text) or part.columns for part in screen(overviews.overview(), 100))


def test_the_newest_change_stands_above_for_a_minute():
    at = overviews.overview()["at"]
    event = ApplicationChanged(
        at - 59.0, 2, "ann", "", "repartition `quote` to 3", "REFUSED", reason="it slides"
    )
    line = "change 2 is refused: it slides: repartition `quote` to 3, asked for by ann"
    assert drawn(100, change=row_of(event))[3] == line
    assert line not in drawn(100, change={**row_of(event), "since": at - 61.0})
    waiting = replace(event, state="QUEUED", reason="window 120 is awaited", at=at - 3600.0)
    assert drawn(100, change=row_of(waiting))[3].startswith("change 2 waits: window 120 is awaited")
    assert len(drawn(100, height=15, change=row_of(event))) <= 15


def metric(name, value, total=None, unit=""):
    kind = "gauge" if total is None else "counter"
    row = {"operator": "quote", "metric": name, "kind": kind, "value": value, "total": total, "unit": unit}
    return {**row, "windowId": 3}


def test_metrics_of_operators_in_two_lines_at_most():
    few = {"metrics": [metric("open", 3.0), metric("bad", 1.0, 1234.0, "records")]}
    lines = overviews.drawn(*screen(overviews.overview(), 100, None, few), width=100)
    assert "quote.open 3  quote.bad 1,234 records" in lines
    many = {"metrics": [metric(f"m{number}", float(number)) for number in range(50)]}
    for width in (60, 100):
        lines = overviews.drawn(*screen(overviews.overview(), width, 20, many), width=width)
        assert len(lines) <= 20
        assert max(map(len, lines)) <= width
        assert any("more: `ridgeline metrics`" in line for line in lines)
    assert drawn(100) == overviews.drawn(*screen(overviews.overview(), 100, None, {"metrics": []}), width=100)


def test_partitions_are_one_row_whose_times_are_the_slowest_ones():
    quote = rows_of(overviews.operators())[1]
    assert (quote.title, quote.partitions, quote.latency_ms, quote.p99_ms) == ("quote", 2, 60.0, 120.0)
    assert quote.parts_ms == (40.0, 15.0, 5.0)
    assert (quote.tuples_in, quote.tuples_out, quote.errors) == (4000.0, 0.5, 7)


def test_unifiers_are_a_row_of_their_own():
    titles = ["top", "top.top#unifier[0]", "top.top#unifier[1]"]
    operators = [
        overviews.operator(number, title, "operator", 1.0, (1.0, 0.0, 0.0), (0, 0))
        for number, title in enumerate(titles)
    ]
    assert [(row.title, row.partitions) for row in rows_of(operators)] == [("top", 1), ("top.top#unifier", 2)]


def test_operators_without_a_window_yet_have_no_times():
    nothing = dict.fromkeys(
        (
            "latencyMs",
            "computeMs",
            "waitMs",
            "transferMs",
            "p50Ms",
            "p99Ms",
            "tuplesProcessedPSMA",
            "windowsBehind",
        )
    )
    [row] = rows_of([{**overviews.operators()[0], **nothing}])
    assert (row.latency_ms, row.p50_ms, row.parts_ms, row.tuples_in) == (None, None, (0.0, 0.0, 0.0), 0.0)


def test_partitions_are_put_together():
    entries = [
        overviews.age("sink[0]", "commit", 1, average=100.0, count=30),
        overviews.age("sink[1]", "commit", 2, average=200.0, p99=900.0),
    ]
    [merged] = together(entries)
    assert merged["operator"] == "sink"
    assert merged["avgMs"] == (100 * 30 + 200 * 10) / 40
    assert (merged["p99Ms"], merged["count"], merged["minMs"]) == (900.0, 40, 10.0)


def test_a_sink_without_records_in_the_last_minute():
    names = ("minMs", "maxMs", "avgMs", "p50Ms", "p90Ms", "p99Ms", "p999Ms", "oldestMs")
    ages = {"operators": [{**overviews.age("sink", "commit", 1, count=0), **dict.fromkeys(names)}]}
    assert overviews.drawn(*sink_lines(ages)) == ["record age at sink, committed: avg -, p99 -"]


def test_many_sinks_are_counted():
    ages = {
        "operators": [
            overviews.age(f"sink{number}", "commit", number, p99=float(number)) for number in range(9)
        ]
    }
    lines = overviews.drawn(*sink_lines(ages, limit=2))
    assert [line.split(",")[0] for line in lines] == [
        "record age at sink8",
        "record age at sink7",
        "and 7 more sinks",
    ]
    assert len(sink_ages(ages)) == 9


def test_the_table_at_three_widths():
    entries = overviews.ages()["operators"]
    assert overviews.drawn(ages_table(entries, 100)) == [
        "operator  at        min     avg     p50     p90     p99   p99.9     max  oldest  records",
        "ticks     source  10 ms  120 ms  100 ms  250 ms  300 ms  310 ms  320 ms  400 ms       10",
        "console   emit    10 ms  120 ms  100 ms  250 ms  300 ms  310 ms  320 ms  400 ms       10",
        "console   commit  10 ms  120 ms  100 ms  250 ms  300 ms  310 ms  320 ms  400 ms       10",
        "sma       commit  10 ms  120 ms  100 ms  250 ms  350 ms  310 ms  320 ms  400 ms       10",
    ]
    assert overviews.drawn(ages_table(entries, 60))[1].split()[:2] == ["ticks", "source"]
    assert max(map(len, overviews.drawn(ages_table(entries, 60)))) <= 60
    assert overviews.drawn(ages_table(entries, 160), width=160) == overviews.drawn(ages_table(entries, 100))
