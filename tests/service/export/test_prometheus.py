"""`/metrics`: exactly the registry, with values that a hand computation gives."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from ridgeline.observe.watch import Watch
from ridgeline.service.export.prometheus import Readings, exposition
from support.measure import changing
from support.service.families import WatchCollector
from support.service.watched import Now, feed, serving, watched


def scrape(client):
    status, _, body = client.ask("/metrics")
    assert status == 200
    return {family.name: family for family in parse_text(body.decode())}


def values(families):
    """Every sample's value by name and labels without `application`."""
    found = {}
    for family in families.values():
        for sample in family.samples:
            assert sample.labels["application"] == "payments"
            labels = frozenset(
                (name, value) for name, value in sample.labels.items() if name != "application"
            )
            assert (sample.name, labels) not in found
            found[sample.name, labels] = sample.value
    return found


def value(families, name, **labels):
    return values(families).get((f"ridgeline_{name}", frozenset(labels.items())))


@pytest.fixture(scope="module")
def families():
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client:
        yield scrape(client)


def test_metrics_that_operators_declare_are_exposed(families):
    taken, accounts = families["ridgeline_metric_taken_cents"], families["ridgeline_metric_accounts"]
    assert (taken.type, taken.documentation) == ("counter", "What was paid,\nto \\ from all accounts.")
    (sample,) = taken.samples
    assert (sample.name, sample.value) == ("ridgeline_metric_taken_cents_total", 150)
    assert sample.labels == {"application": "payments", "operator": "balances"}
    assert accounts.type == "gauge"
    assert [sample.labels["partition"] for sample in accounts.samples] == ["0", "1"]
    assert sum(sample.value for sample in accounts.samples) == 3


def test_the_text_says_what_prometheus_client_says(families):
    watch, _, _, _ = watched()
    registry = CollectorRegistry()
    registry.register(WatchCollector(watch))
    theirs = {family.name: family for family in parse_text(generate_latest(registry).decode())}
    assert values(theirs) == values(families)
    assert [(family.name, family.type, family.documentation) for family in theirs.values()] == [
        (family.name, family.type, family.documentation) for family in families.values()
    ]


def test_each_sample_is_there_once_when_the_plan_has_changed():
    now = Now()
    watch = Watch(now)
    feed(watch, now, *changing.run())
    lines = exposition(Readings(watch)).decode().splitlines()
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(samples) == len(set(samples)) > 40


def test_values_are_those_of_the_run(families):
    assert value(families, "windows_committed_total") == 5
    assert (
        value(families, "operator_records_out_total", operator="source", partition="0", port="output") == 20
    )
    taken = [
        value(
            families, "operator_records_in_total", operator="balances", partition=str(number), port="payments"
        )
        for number in (0, 1)
    ]
    assert sum(taken) == 20
    rejected = [
        value(families, "operator_records_rejected_total", operator="balances", partition=str(number))
        for number in (0, 1)
    ]
    assert sum(rejected) == 5
    assert value(families, "verdict", verdict="keeping up") == 1
    assert value(families, "verdict", verdict="stuck") == 0
    assert value(families, "application_info", id="payments-1", user="ann", master="local") == 1
    assert value(families, "operator_window_latency_seconds_count", operator="source", partition="0") == 5
    assert value(families, "window_latency_seconds_count") == 4  # the last one may still change


def test_record_latency_is_exact_in_its_sum(families):
    for stage, operator, count in (("source", "source", 20), ("emit", "sink", 15), ("commit", "sink", 15)):
        labels = {"operator": operator, "partition": "0", "stage": stage}
        assert value(families, "record_latency_seconds_count", **labels) == count
        assert value(families, "record_latency_seconds_sum", **labels) == pytest.approx(3.0 * count)
        assert value(families, "record_latency_seconds_bucket", **labels, le="2.5") == 0
        assert value(families, "record_latency_seconds_bucket", **labels, le="5.0") == count
        assert value(families, "record_latency_maximum_seconds", **labels, level="INFO") == 3.0
        assert value(families, "record_latency_negative_records", **labels) == 0
