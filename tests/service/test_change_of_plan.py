"""The plan changes while the application runs: metrics, service, event log and replay go on with it."""

import json
from random import Random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ridgeline.measure.events import ApplicationEnded, ApplicationPlanned
from ridgeline.measure.measurement import Measurement
from ridgeline.observe.watch import Watch
from ridgeline.service.event_log import EventLogWriter, replay
from ridgeline.service.export.prometheus import Exposition
from support.measure.changing import GAP, IDS, TUPLES, WINDOWS, run

NOW = 11.5


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


def told(events):
    """A watch that was told the events, by a clock that goes with them."""
    clock = Clock()
    watch = Watch(clock)
    for event in events:
        clock.seconds = max(clock.seconds, event.at)
        watch.observe(event)
    clock.seconds = max(clock.seconds, NOW)
    return watch


def scraped(exposition):
    """The samples of a scrape, by name and labels; each is there once."""
    found = {}
    for family in text_string_to_metric_families(exposition.render().decode()):
        for sample in family.samples:
            labels = frozenset(
                (name, value) for name, value in sample.labels.items() if name != "application"
            )
            assert (sample.name, labels) not in found, sample
            found[sample.name, labels] = sample.value
    return found


def of(samples, name, **labels):
    return samples.get((f"ridgeline_{name}", frozenset(labels.items())))


def test_metrics_are_those_of_the_present_plan_and_counters_never_fall():
    clock, watch = Clock(), None
    watch = Watch(clock)
    exposition = Exposition(watch)
    before, events, some = {}, list(run()), Random(1)
    for event in events:
        clock.seconds = max(clock.seconds, event.at)
        watch.observe(event)
        kept = isinstance(event, ApplicationPlanned) or event is events[-1]
        if not kept and some.random() > 0.25:
            continue  # a scrape takes a hundred times as long as an event
        samples = scraped(exposition)
        for key, value in samples.items():
            name = key[0]
            if name == "ridgeline_metric_keys_total":
                continue  # what is cumulative is as the partitions say, whose states have moved
            if name.endswith(("_total", "_count", "_sum", "_bucket")):
                assert value >= before.get(key, 0) - 1e-12, key
        before.update(samples)
    count = {"operator": "count", "port": "input"}
    assert of(samples, "operator_records_in_total", partition="0", **count) == WINDOWS * 22
    assert of(samples, "operator_records_in_total", partition="1", **count) == WINDOWS * 10
    labels = {name: dict(pairs).get("operator") for name, pairs in samples}
    partitions = {
        dict(pairs)["partition"]
        for _, pairs in samples
        if dict(pairs).get("operator") == "count" and "partition" in dict(pairs)
    }
    assert partitions == {"0", "1"}
    assert "audit" not in labels.values()
    assert not any(
        "audit" in dict(pairs).values() or "count[2]" in dict(pairs).values() for _, pairs in samples
    )
    containers = {dict(pairs)["container"] for _, pairs in samples if "container" in dict(pairs)}
    assert containers == {str(number + 100) for number in IDS[3].values()}
    assert of(samples, "plan_version") == 3
    assert of(samples, "changes_total", state="APPLIED") == of(samples, "changes_total", state="QUEUED") == 2
    assert of(samples, "changes_total", state="REFUSED") == 0
    assert of(samples, "change_held_seconds") == GAP
    assert of(samples, "metric_hits_total", operator="count", partition="1") == WINDOWS * 10
    assert of(samples, "metric_keys_total", operator="count", partition="1") == 600
    compute = of(samples, "operator_compute_seconds_total", operator="count", partition="0")
    assert compute == pytest.approx(WINDOWS * (0.060 + 0.020 + 0.035))
    assert of(samples, "operator_window_latency_seconds_count", operator="count", partition="0") == 12
    ages = {"operator": "count", "stage": "state"}
    assert of(samples, "record_latency_seconds_count", partition="0", **ages) == 12
    assert (
        of(samples, "operator_records_in_total", operator="write", partition="0", port="input") == 12 * TUPLES
    )


def test_the_text_has_each_sample_once():
    lines = Exposition(told(run())).render().decode().splitlines()
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples)) > 40


@pytest.mark.parametrize("name", ["log.jsonl", "log.json"])
def test_a_log_that_is_replayed_has_the_same_figures(tmp_path, name):
    path = str(tmp_path / name)
    events = [*run(), ApplicationEnded(NOW, "finished")]
    writer = EventLogWriter(path)
    straight = Measurement()
    for event in events:
        writer.write(event)
        straight.apply(event)
    writer.close()
    again = replay(path)
    assert again.overview(NOW) == straight.overview(NOW)
    assert again.summary() == straight.summary()
    assert again.changes.rows() == straight.changes.rows()
    assert [row["planVersion"] for row in again.changes.rows()] == [2, 3]


def test_changes_are_rows():
    first, second = told(run()).changes()
    assert first == {
        "id": 1,
        "who": "ann",
        "note": "more load",
        "what": "repartition count to 3; add audit",
        "edits": [{"do": "repartition", "operator": "count", "partitions": 3}],
        "state": "APPLIED",
        "window": 4,
        "reason": "",
        "planVersion": 2,
        "heldSeconds": GAP,
        "at": 3.7,
        "since": pytest.approx(4.06),
    }
    assert second["window"] == 8
    watch = told(run())
    assert watch.overview()["change"] == second
    assert watch.changes(1) == [second]
    assert json.dumps(watch.overview())
