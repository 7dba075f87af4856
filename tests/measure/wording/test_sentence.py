"""The sentence that says how an application does: its text in every state, and what its pieces point to."""

import re

import pytest
from hypothesis import strategies as st

from ridgeline.measure.measurement import Measurement
from ridgeline.measure.wording.sentence import sentence_of
from support.cli import overviews
from support.measure.story import measured, windows

AGES = "99% of records are younger than 350 ms at sma and 300 ms at console"
WINDOW = "a window takes 97 ms, 42% of it quote[1]"
REST = f"{AGES}; {WINDOW}"
LATENCY = "latency_p99:console"


def progress(**changes):
    """Of an application that keeps up, but for the changes."""
    calm = {"verdict": "keeping up", "backlogRecords": 0.0, "backlogSeconds": 0.0, "caughtUpAt": None}
    return overviews.progress(**{**calm, **changes})


def promise(name=LATENCY, unit="s", figure=5.2, limit=2.0, **changes):
    row = {"promise": name, "kept": False, "since": overviews.AT - 12.0, "unit": unit}
    return {**row, "figure": figure, "limit": limit, **changes}


def idle(ever):
    rows = overviews.operators()
    rows[0] = {**rows[0], "tuplesEmittedPSMA": 0.0, "totalTuplesEmitted": ever}
    return {
        "operators": rows,
        "recordAge": {"operators": []},
        "window": {"windowId": 1, "tuplesIn": 0, "lateMs": 0},
    }


def source(name, **changes):
    return {**overviews.source(), "operator": name, **changes}


FALLING = {"verdict": "falling behind", "arrivalPerSecond": 500.0, "drainPerSecond": 400.0}
BEHIND = progress(verdict="falling behind", backlogRecords=12300.0, backlogSeconds=40.0)
HANGS = {
    **overviews.running_progress(),
    "application": progress(verdict="stuck")["application"],
    "sources": [],
}
SILENT = [{"id": 3, "silent": True, "lastHeartbeatAgeSeconds": 31.0}]


@pytest.mark.parametrize(
    ("state", "changes", "text"),
    [
        ("starting", {"info": {"state": "PENDING", "stats": {}}}, "starting: nothing is planned yet"),
        ("starting", {"windowId": None}, "starting: no window is committed yet"),
        (
            "starting",
            {"windowId": None, "progress": overviews.running_progress()},
            "starting: the first window runs for 20 s, 33% of it done",
        ),
        (
            "starting",
            {"windowId": None, "info": overviews.info(stats={"windowsRetried": 3})},
            "starting: no window is committed yet, after 3 attempts that failed",
        ),
        (
            "starting",
            {"progress": progress(verdict="settling")},
            f"starting: it is too early to say whether it keeps up; {REST}",
        ),
        ("ok", {"progress": progress()}, f"keeping up: {REST}"),
        ("ok", {"progress": progress(windowsBehind=2)}, f"keeping up: {REST}"),
        ("ok", {"progress": progress(), **idle(0.0)}, f"keeping up: no data has arrived yet; {WINDOW}"),
        ("ok", {"progress": progress(), **idle(9.0)}, f"keeping up: no data arrives now; {WINDOW}"),
        ("ok", {"progress": progress(verdict="paced")}, f"paced: what is left is not due yet; {REST}"),
        (
            "ok",
            {"progress": progress(verdict="unknown", backlogRecords=None, backlogSeconds=None)},
            f"running: how much waits at the sources is not known; {REST}",
        ),
        (
            "behind",
            {"progress": progress(windowsBehind=11)},
            f"late: windows begin 5.50 s after their time (11 windows behind); {REST}",
        ),
        (
            "behind",
            {"progress": overviews.progress()},
            f"catching up: 12,300 records wait at ticks, caught up in 40 s; {REST}",
        ),
        (
            "behind",
            {"progress": overviews.progress(verdict="not catching up", caughtUpAt=None, basis="estimated")},
            (
                "not catching up: about 12,300 records wait at ticks, 92 records/s arrive and 400 are "
                f"processed; {REST}"
            ),
        ),
        (
            "behind",
            {"progress": {**BEHIND, "sources": [source("ticks", **FALLING), source("clicks")]}},
            (
                "falling behind: 12,300 records wait, most of it at ticks, 500 records/s arrive and 400 "
                f"are processed; {REST}"
            ),
        ),
        (
            "behind",
            {
                "progress": {
                    **progress(verdict="falling behind", windowsBehind=67, basis="exact"),
                    "sources": [],
                }
            },
            (
                "falling behind: nothing waits at the sources, but windows begin 33.5 s after their time "
                f"(67 windows behind); {REST}"
            ),
        ),
        (
            "stuck",
            {"progress": HANGS},
            (
                "stuck: nothing is committed, and nothing moves; the window under way runs for 20 s, "
                f"in summing; {REST}"
            ),
        ),
        (
            "stuck",
            {"progress": {**HANGS, "containers": SILENT}},
            (
                "stuck: nothing is committed, and nothing moves; the window under way runs for 20 s, "
                f"in summing; container 3 is silent for 31 s; {REST}"
            ),
        ),
        (
            "stuck",
            {"progress": progress(stuckOutputs=["`table` is stuck: the server is unavailable"])},
            f"stuck: `table` is stuck: the server is unavailable; {REST}",
        ),
        (
            "stuck",
            {
                "progress": {
                    **progress(verdict="unreachable"),
                    "sources": [source("clicks", problem="Timed out\nat line 3")],
                }
            },
            f"unreachable: source clicks does not answer (Timed out); 12,300 records wait at clicks; {REST}",
        ),
        (
            "behind",
            {"progress": progress(), "promises": [promise(), promise(kept=True)]},
            f"keeping up: promise {LATENCY} is broken for 12.0 s (5.20 s instead of 2.00 s); {REST}",
        ),
        (
            "behind",
            {
                "progress": progress(),
                "promises": [
                    promise("throughput:sma", "tuples/s", 900.0, 2000.0),
                    promise("errors", "share", 0.12, 0.01),
                    promise(),
                    promise(),
                ],
            },
            (
                "keeping up: promise throughput:sma is broken for 12.0 s (900 tuples/s instead of 2,000 "
                "tuples/s); promise errors is broken for 12.0 s (12% instead of 1%); 2 more promises broken; "
                f"{REST}"
            ),
        ),
        (
            "behind",
            {"info": overviews.info("PAUSED"), "progress": progress()},
            f"paused: no window begins until it is continued; {AGES}",
        ),
        *[
            (
                "behind",
                {"info": overviews.info("PAUSED"), "progress": overviews.progress(verdict=verdict)},
                f"paused: no window begins until it is continued; 12,300 records wait at ticks; {AGES}",
            )
            for verdict in ("catching up", "not catching up", "falling behind", "settling")
        ],
        (
            "behind",
            {
                "info": overviews.info("PAUSED"),
                "progress": {
                    **overviews.progress(asOf=overviews.AT - 60),
                    "queues": [{"writer": "orders", "backlogRecords": 12_000, "backlogSeconds": 4.0}],
                },
            },
            (
                "paused: no window begins until it is continued; 12,300 records wait, as of 1 min 0 s ago; "
                f"{AGES}"
            ),
        ),
        (
            "behind",
            {"progress": {**progress(windowsBehind=11), "queues": []}},
            f"late: windows begin at least 5.50 s after their time (11 windows behind); {REST}",
        ),
        (  # most waits at a source that does not count records: those of a queue do not stand for it
            "behind",
            {
                "progress": {
                    **overviews.progress(backlogRecords=120.0, backlogSeconds=729.0, basis="estimated"),
                    "sources": [source("rides", unit="files", backlogRecords=None, backlogSeconds=729.0)],
                    "queues": [{"writer": "orders", "backlogRecords": 120, "backlogSeconds": 0.4}],
                }
            },
            f"catching up: about 12 min 9 s of work waits at rides, caught up in 40 s; {REST}",
        ),
        (
            "failed",
            {"info": overviews.info("FAILED", reason="operator `double` failed\nTraceback ...")},
            "failed: operator `double` failed; it had committed 1,235 windows",
        ),
        (
            "ended",
            {"info": overviews.info("FINISHED"), "progress": progress(), "recordAge": {"operators": []}},
            "finished after 1,235 windows: the last window took 97 ms, 42% of it quote[1]",
        ),
        (
            "ended",
            {
                "info": overviews.info("STOPPED"),
                "progress": progress(basis="schedule", backlogSeconds=1e-5),
                "recordAge": {"operators": []},
            },
            "stopped after 1,235 windows: the last window took 97 ms, 42% of it quote[1]",
        ),
        (
            "ended",
            {"info": overviews.info("STOPPED", stats={"windowsCommitted": 1}), "promises": [promise()]},
            (
                "stopped after 1 window: at its end 12,300 records wait at ticks; promise "
                f"{LATENCY} was broken at the end; {AGES.replace(' are ', ' were ')}; "
                "the last window took 97 ms, 42% of it quote[1]"
            ),
        ),
        (
            "ended",
            {
                "info": overviews.info("STOPPED"),
                "progress": {
                    **overviews.progress(),
                    "queues": [{"writer": "orders", "backlogRecords": 12_000, "backlogSeconds": 4.0}],
                    "because": ["region mail is stopped, queue orders keeps 12,000 tuples for it"],
                },
                "recordAge": {"operators": []},
            },
            (
                "stopped after 1,235 windows: at its end 12,300 records wait; the last window took 97 ms, "
                "42% of it quote[1]"
            ),
        ),
        (
            "behind",
            {
                "progress": {
                    **overviews.progress(),
                    "because": ["region mail has failed (the disk is gone), queue orders is full"],
                }
            },
            (
                "catching up: region mail has failed (the disk is gone), queue orders is full; caught up in "
                f"40 s; {REST}"
            ),
        ),
    ],
)
def test_the_sentence_of_each_state(state, changes, text):
    found = sentence_of(overviews.overview(**changes))
    assert found["text"] == text
    assert found["state"] == state


def test_ages_are_those_that_readers_see_of_the_worst_partition_and_the_rest_is_counted():
    rows = [
        overviews.age("table[0]", "commit", 7, p99=100.0),
        overviews.age("table[0]", "publish", 7, p99=61_000.0),
        overviews.age("table[1]", "publish", 8, p99=60_000.0),
        overviews.age("ticks", "source", 1, p99=9e9),
        overviews.age("quote[0]", "emit", 2, p99=9e9),
        overviews.age("console", "emit", 4, p99=9e9),
        overviews.age("console", "commit", 4, p99=300.0),
        overviews.age("sma", "commit", 5, p99=0.0),
        overviews.age("file", "commit", 6, p99=4.0, count=0),
    ]
    found = sentence_of(overviews.overview(progress=progress(), recordAge={"operators": rows}))
    assert found["text"].startswith(
        "keeping up: 99% of records are younger than 1 min 1 s at table and 300 ms at console, 1 more sink "
        "not later; "
    )
    ages = {"operators": rows[-3:-1], "fromNewestRecord": True}
    newest = sentence_of(overviews.overview(progress=progress(), recordAge=ages))
    assert (
        "are less than 300 ms behind the newest at console and 0.1 ms behind the newest at sma;"
        in (newest["text"])
    )


def test_at_the_end_it_says_that_it_speaks_of_the_last_window_which_need_not_be_like_the_others():
    blame = [{"what": "retries", "operator": "", "ms": 50.0}]
    regions = {"table": 12, "mail": 7}
    for changes, what in (({}, "the last window took"), ({"windows": regions}, "the last results took")):
        path = {**overviews.PATH, **changes, "blame": blame}
        found = sentence_of(overviews.overview(info=overviews.info("FINISHED"), criticalPath=path))
        assert found["text"].endswith(f"; {what} 97 ms, 52% of it earlier attempts and 42% quote[1]")


def test_what_takes_more_than_any_operator_is_named_too():
    rest = {"commit": 9.0, "launch": 50.0}
    blame = [{"what": what, "operator": "", "ms": ms} for what, ms in rest.items()]
    path = {**overviews.PATH, "blame": blame}
    found = sentence_of(overviews.overview(progress=progress(), criticalPath=path))
    assert found["text"].endswith("a window takes 97 ms, 52% of it sending time and 42% quote[1]")
    path["path"] = [{**step, "latencyMs": 0.01} for step in path["path"]]
    found = sentence_of(overviews.overview(progress=progress(), criticalPath=path))
    assert found["text"].endswith("a window takes 97 ms, 52% of it sending time")


def test_shares_of_a_window_are_of_what_it_waited_for():
    """The critical path adds up what operators take, and a window may have waited for others meanwhile."""
    for waited, text in (("quote[0]", "93% of it quote"), ("slow[0]", "62% of it waiting for a slot")):
        blame = [
            {"what": what, "operator": waited, "ms": ms} for what, ms in (("slot", 60.0), ("compute", 30.0))
        ]
        path = {**overviews.PATH, "blame": blame}
        found = sentence_of(overviews.overview(progress=progress(), criticalPath=path))
        assert found["text"].endswith(f"a window takes 97 ms, {text}")


def test_pieces_say_where_the_page_shows_what_they_are_made_of():
    found = sentence_of(overviews.overview())
    about = {part["text"]: part["about"] for part in found["parts"]}
    assert about["12,300 records"] == {"view": "sources", "source": "ticks"}
    assert about["350 ms"] == {"view": "sinks", "sink": "sma"}
    assert about["97 ms"] == {"view": "time", "window": "1234"}
    assert about["42%"] == {"view": "graph", "operator": "quote", "window": "1234"}
    broken = sentence_of(overviews.overview(promises=[promise()]))["parts"]
    assert [part["about"] for part in broken if part["text"] == LATENCY] == [
        {"view": "promises", "promise": LATENCY}
    ]
    silent = sentence_of(overviews.overview(progress={**HANGS, "containers": SILENT}))["parts"]
    assert [part["about"] for part in silent if part["text"] == "container 3"] == [
        {"view": "slots", "slot": "43@worker"}
    ]


def test_a_step_that_is_no_partition_is_shown_at_the_operator_that_it_belongs_to():
    """The plan has no operator with the name of a unifier or of a queue."""
    step = {"id": 3, "latencyMs": 80.0, "computeMs": 80.0, "transferMs": 0.0}
    for title in ("quote.out#unifier[1]", "waits in queue quotes"):
        path = {**overviews.PATH, "path": [{**step, "operator": title}]}
        found = sentence_of(overviews.overview(criticalPath=path))
        assert found["text"].endswith(f"82% of it {title}")
        assert found["parts"][-2]["about"] == {"view": "graph", "operator": "quote", "window": "1234"}


def test_it_is_made_of_a_real_overview_before_the_plan_and_while_it_runs():
    assert sentence_of(Measurement().overview(5.0))["state"] == "starting"
    assert sentence_of(measured().overview(3.0))["text"] == "starting: no window is committed yet"
    found = sentence_of(measured(*windows(3)).overview(2.6))
    assert found["state"] in {"ok", "starting"}
    assert "a window takes " in found["text"]


def test_each_number_leads_somewhere_also_of_what_hangs():
    refused = [source("clicks", problem="port 5432: refused after 3 tries")]
    gone = {**progress(verdict="unreachable"), "sources": refused}
    for overview in (
        overviews.overview(progress=progress()),
        overviews.overview(progress={**HANGS, "containers": SILENT}),
        overviews.overview(progress=gone),
    ):
        found = sentence_of(overview)
        words = [part["text"].replace("quote[1]", "") for part in found["parts"] if part["about"] is None]
        assert not [word for word in words if re.search(r"\d", word)], found["text"]


numbers = st.floats(0, 1e7) | st.just(0.0)
maybe = st.none() | numbers
promises = st.lists(
    st.builds(
        lambda kept, unit, figure: promise("late", unit, figure, 1.0, kept=kept),
        st.sampled_from([True, False, None]),
        st.sampled_from(["s", "tuples/s", "share"]),
        maybe,
    ),
    max_size=4,
)
