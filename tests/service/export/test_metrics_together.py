"""`/metrics` of very many operators: one series for all partitions; each if a scraper asks for it."""

from collections import Counter, defaultdict
from random import Random

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ridgeline.measure import topology as topologies
from ridgeline.measure.events import ApplicationPlanned
from ridgeline.observe.watch import Watch
from ridgeline.service.export.prometheus import Exposition
from support.measure.changing import run
from support.service.watched import Now, serving, watched


@pytest.fixture(autouse=True)
def sums(monkeypatch):
    """Plans of a few operators are summed."""
    monkeypatch.setattr(topologies, "MOST_ROWS", 2)


@pytest.fixture
def client():
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client:
        yield client


def samples_of(text):
    """Each sample's value by name and labels; all are there once."""
    found = {}
    for family in parse_text(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def by_operator(samples, prefix):
    """Of one metric, the values of all partitions by their other labels."""
    found = defaultdict(list)
    for (name, labels), value in samples.items():
        if name.startswith(prefix):
            found[name, tuple(one for one in labels if one[0] != "partition")].append(value)
    return found


def test_series_are_of_logical_operators_and_add_up_what_partitions_have(client):
    together = samples_of(client.ask("/metrics")[2].decode())
    single = samples_of(client.ask("/metrics?partitions=true")[2].decode())
    partitions = {dict(labels)["partition"] for _, labels in together if "partition" in dict(labels)}
    assert partitions == {""}
    assert {dict(labels)["partition"] for _, labels in single if "partition" in dict(labels)} >= {"0", "1"}
    joins = {
        "ridgeline_operator_window_latency_seconds_bucket": sum,
        "ridgeline_operator_window_latency_seconds_count": sum,
        "ridgeline_operator_window_latency_seconds_sum": sum,
        "ridgeline_operator_compute_seconds_total": sum,
        "ridgeline_operator_cpu_seconds_total": sum,
        "ridgeline_operator_wait_seconds_total": sum,
        "ridgeline_operator_transfer_seconds_total": sum,
        "ridgeline_operator_records_in_total": sum,
        "ridgeline_operator_records_out_total": sum,
        "ridgeline_operator_records_rejected_total": sum,
        "ridgeline_operator_state_bytes": sum,
        "ridgeline_operator_queue_records": sum,
        "ridgeline_operator_windows_behind": max,
        "ridgeline_record_latency_seconds_bucket": sum,
        "ridgeline_record_latency_seconds_count": sum,
        "ridgeline_record_latency_seconds_sum": sum,
        "ridgeline_record_latency_maximum_seconds": max,
    }
    for name, join in joins.items():
        found, wanted = by_operator(together, name), by_operator(single, name)
        assert found, name
        assert {key: value for key, (value,) in found.items()} == pytest.approx(
            {key: join(values) for key, values in wanted.items()}
        ), name
    others = {
        key: value for key, value in single.items()
        if not {"partition", "container"} & dict(key[1]).keys() and "blame" not in key[0]
    }  # fmt: skip
    assert {key: together[key] for key in others} == pytest.approx(others)
    ages = Counter(dict(labels)["container"] for name, labels in together if "heartbeat_age" in name)
    assert ages.keys() <= {""}


def test_the_blame_adds_up_to_the_same(client):
    def blame(path):
        found = defaultdict(float)
        for (name, labels), value in samples_of(client.ask(path)[2].decode()).items():
            if name == "ridgeline_window_blame_seconds_total":
                found[dict(labels)["what"]] += value
        return found

    assert blame("/metrics") == pytest.approx(blame("/metrics?partitions=true"))


def test_plans_that_are_not_large_have_each_partition(monkeypatch, client):
    monkeypatch.setattr(topologies, "MOST_ROWS", 2_000)
    watch, plan, _, _ = watched()
    with serving(watch, plan) as other:
        usual, asked = (
            samples_of(other.ask(path)[2].decode()) for path in ("/metrics", "/metrics?partitions=true")
        )
    assert usual.keys() == asked.keys()
    assert any(dict(labels).get("partition") == "1" for _, labels in usual)


@pytest.mark.parametrize(
    ("query", "word"), [("partitions=maybe", "true or false"), ("partition=true", "no parameter `partition`")]
)
def test_what_is_no_parameter_is_refused(client, query, word):
    status, _, body = client.ask(f"/metrics?{query}")
    assert status == 400
    assert word in body.decode()


def test_counters_do_not_fall_when_the_plan_has_fewer_partitions():
    clock = Now()
    watch = Watch(clock)
    clock.seconds = 0.0
    exposition, before, scrapes = Exposition(watch), {}, 0
    events, some = list(run()), Random(1)
    for event in events:
        clock.seconds = max(clock.seconds, event.at)
        watch.observe(event)
        kept = isinstance(event, ApplicationPlanned) or event is events[-1]
        if not kept and some.random() > 0.25:
            continue  # a scrape takes a hundred times as long as an event
        samples = samples_of(exposition.render().decode())
        for key, value in samples.items():
            if key[0].endswith(("_total", "_bucket", "_count")) and "operator" in dict(key[1]):
                assert value >= before.get(key, 0.0) - 1e-9, key
        before, scrapes = samples, scrapes + 1
    assert scrapes > 10
