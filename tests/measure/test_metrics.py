"""The registry of metrics keeps Prometheus' rules."""

import re

import pytest

from ridgeline.measure.metric import PREFIX, Kind
from ridgeline.measure.metrics import BY_NAME, GROUPS, METRICS

LABELS = set(
    "container host id level master operator partition port position promise reason stage state".split()  # noqa: SIM905
) | {"stream", "user", "verdict", "version", "what"}
UNITS = {"seconds", "bytes", "records", "windows", "tasks"}
OTHER_UNITS = ("milli", "micro", "nano", "_ms", "minutes", "hours", "kilo", "mega", "percent")
every = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


def test_names_are_unique_and_all_metrics_are_in_a_group():
    assert len(BY_NAME) == len(METRICS) == sum(map(len, GROUPS.values()))


@every
def test_name(metric):
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", metric.name)
    assert not metric.name.startswith(PREFIX)
    assert not any(unit in metric.name for unit in OTHER_UNITS)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.name.endswith("_info") == (metric.kind is Kind.INFO)
    assert not metric.name.endswith(("_count", "_sum", "_bucket"))
    assert not set(metric.name.split("_")) & (
        set(metric.labels) - {"operator", "container", "promise", "state", "verdict"}
    )


@every
def test_unit(metric):
    assert metric.unit in UNITS | {""}
    words = metric.name.split("_")
    if metric.unit in {"seconds", "bytes"}:
        assert words[-2 if metric.kind is Kind.COUNTER else -1] == metric.unit
    elif metric.unit:
        assert metric.unit in words
    assert (metric.unit == "seconds") == ("seconds" in words)


@every
def test_labels(metric):
    assert set(metric.labels) <= LABELS
    assert metric.all_labels[0] == "application"
    assert len(set(metric.all_labels)) == len(metric.all_labels)


@every
def test_buckets_and_states(metric):
    assert bool(metric.bounds) == (metric.kind is Kind.HISTOGRAM)
    assert list(metric.bounds) == sorted(set(metric.bounds))
    assert not metric.bounds or metric.bounds[-1] >= 600  # tails of minutes are seen
    assert bool(metric.states) == (metric.kind is Kind.STATE)


@every
def test_words(metric):
    assert metric.help[0].isupper() or metric.help[0].isdigit()
    assert metric.help.endswith(".")
    assert metric.advice.endswith(".")


def test_kip_613_names_are_known():
    aliases = " ".join(alias for metric in METRICS for alias in metric.aliases)
    assert all(f"`record-e2e-latency-{statistic}`" in aliases for statistic in ("min", "max", "avg"))
    assert "Apex `latencyMA`" in aliases
