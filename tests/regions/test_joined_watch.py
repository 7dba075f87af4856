"""The figures of several regions, joined: against what their events and the files of queues say."""

import pytest

from ridgeline.measure.events import (
    ApplicationEnded,
    ApplicationPlanned,
    SourceProgress,
    WindowCommitted,
)
from ridgeline.plan.region import IDS
from ridgeline.regions.joined_watch import RegionNeededError
from ridgeline.service.export.prometheus import Readings
from support.measure.reports import operator_windows
from support.service.halves import EDGE, START, halves_of, joined


@pytest.fixture
def halves(tmp_path):
    return halves_of(tmp_path)


def read_rows(run):
    """The rows that a reader has read by the end of each window, by its events."""
    partitions = next(e for e in run.events if isinstance(e, ApplicationPlanned)).topology.partitions_of(
        EDGE.reader
    )
    ids = {node.id for node in partitions}
    found = {}
    for event in run.events:
        if isinstance(event, SourceProgress) and event.operator in ids:
            found[event.window_id] = found.get(event.window_id, 0.0) + event.consumed
    return found


def test_ids_are_unique_and_lists_have_all_regions_in_order(halves):
    first, second, _, _ = halves
    watch = joined(halves)
    rows = [*first.watch.operators(), *second.watch.operators()]
    assert [{**row, "region": ""} for row in watch.operators()] == [{**row, "region": ""} for row in rows]
    assert len({row["id"] for row in watch.operators()}) == len(rows)
    assert {row["id"] // IDS for row in watch.operators()} == {0, 4}
    for row in watch.operators():
        assert watch.operator(row["id"])["operator"] == row["operator"]
        assert watch.container(row["container"])["operators"][str(row["id"])] == row["operator"]
    assert {row["region"] for row in watch.operators()} == {"shop", "mail"}
    with pytest.raises(KeyError, match=r"ids of the regions begin at 0 .shop., 4,000,000 .mail."):
        watch.operator(9 * IDS)
    with pytest.raises(KeyError, match="there is no operator"):
        watch.operator(4 * IDS + 999)


def test_queue_joins_partitions_of_both_ends(halves):
    watch = joined(halves)
    titles = {row["id"]: row["operator"] for row in watch.operators()}
    queue = [row for row in watch.streams() if row.get("kind") == "queue"]
    pairs = {
        titles[row["source"]["operatorId"]]: [titles[sink["operatorId"]] for sink in row["sinks"]]
        for row in queue
    }
    assert pairs == {
        "orders_queue[0]": ["orders_to_mail[0]"],
        "orders_queue[1]": ["orders_to_mail[1]"],
        "orders_queue[2]": ["orders_to_mail[0]"],
    }
    assert {row["logicalName"] for row in queue} == {"orders"}
    writers = [one for one in watch.topology.operators if one.name == "orders_queue"]
    assert all(len(watch.topology.downstream[one.id]) == 1 for one in writers)


def test_the_last_hours_are_those_of_all_regions_by_time(halves):
    first, second, _, _ = halves
    watch = joined(halves)
    answer = watch.application_history(-86_400.0, 60)
    for name, half in (("shop", first), ("mail", second)):
        own = [row for row in answer["steps"] if row["region"] == name]
        assert sum(row["windows"] for row in own) == half.watch.run()["windows"]
    assert [row["at"] for row in answer["steps"]] == sorted(row["at"] for row in answer["steps"])
    assert watch.operator_history("sink", -86_400.0) == second.watch.operator_history("sink", -86_400.0)
    with pytest.raises(KeyError, match="did you mean `sink`"):
        watch.operator_history("sinks")


def test_sums_are_those_of_the_events(halves):
    first, second, _, _ = halves
    watch = joined(halves)
    events = [*first.events, *second.events]
    committed = [e for e in events if isinstance(e, WindowCommitted)]
    operators = operator_windows(events)
    info = watch.info()
    assert info["stats"]["windowsCommitted"] == len(committed) == watch.run()["windows"]
    assert info["stats"]["totalTuplesProcessed"] == sum(sum(e.tuples_in.values()) for e in operators)
    assert info["stats"]["totalTuplesEmitted"] == sum(sum(e.tuples_out.values()) for e in operators)
    assert info["startTime"] == min(e.at for e in events if isinstance(e, ApplicationPlanned))
    assert info["startTime"] + info["elapsedTime"] == pytest.approx(
        max(e.at for e in events if isinstance(e, ApplicationEnded))
    )
    windows = watch.windows()
    assert [row["committedAt"] for row in windows] == sorted(row["committedAt"] for row in windows)
    assert len(windows) == len(committed)
    assert watch.windows(3) == windows[-3:]


def test_windows_need_a_region(halves):
    _, second, _, _ = halves
    watch = joined(halves)
    with pytest.raises(RegionNeededError, match=r"window 0 may be one of each region.*`shop`, `mail`"):
        watch.latency(0)
    with pytest.raises(RegionNeededError):
        watch.window(0)
    with pytest.raises(RegionNeededError):
        watch.critical_path(0)
    own = watch.of("mail").latency(0)
    assert [row["latencyMs"] for row in own["operators"]] == [
        row["latencyMs"] for row in second.watch.latency(0)["operators"]
    ]
    with pytest.raises(KeyError, match="did you mean `mail`"):
        watch.of("mial")


@pytest.mark.parametrize(
    ("error", "state", "text"),
    [
        (None, "STOPPED", "region mail is stopped, queue orders keeps"),
        (ValueError("the disk is gone"), "FAILED", "region mail has failed (the disk is gone), queue orders"),
    ],
)
def test_verdict_names_the_region_that_does_not_run(halves, error, state, text):
    watch = joined(halves, error=error)
    answer = watch.region_answers()
    (shop_row, mail_row) = answer["regions"]
    assert (shop_row["state"], mail_row["state"]) == ("FINISHED", state)
    (row,) = mail_row["reads"]
    assert shop_row["writes"] == [row]
    assert text in answer["sentence"]
    assert f"keeps {row['backlogRecords']:,} tuples for it" in answer["sentence"]
    assert "and has room for" not in answer["sentence"]  # nothing is written any more
    assert watch.info()["state"] == state


def test_subscribers_get_one_end(halves):
    first, second, _, _ = halves
    watch, got = joined(halves), []
    end = watch.subscribe(got.append)
    first.watch.observe(ApplicationEnded(START, "finished"))
    assert got == []
    second.watch.observe(ApplicationEnded(START, "stopped"))
    assert got == [ApplicationEnded(START, "stopped")]
    end()
    second.watch.observe(ApplicationEnded(START, "stopped"))
    assert len(got) == 1


def test_metrics_have_the_label_region(halves):
    first, second, _, _ = halves
    read = Readings(joined(halves)).read()
    values = {metric.name: (metric, samples) for metric, samples in read}
    for metric, samples in values.values():
        assert metric.all_labels[:2] == ("application", "region")
        assert all(len(labels) == len(metric.all_labels) for labels, _ in samples)
    _, samples = values["windows_committed_total"]
    assert dict(samples) == {
        ("shop", "shop"): first.windows_committed,
        ("shop", "mail"): second.windows_committed,
    }
    _, waiting = values["queue_backlog_records"]
    assert waiting == [(("shop", "mail", "orders_to_mail", "orders"), 200 - max(read_rows(second).values()))]
