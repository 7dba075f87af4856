"""The registries of metrics keep Prometheus' rules, and each row is shown where it says."""

import re
from typing import get_type_hints

import pytest

from ridgeline.measure.answers.operators import OPERATOR_METRICS, OperatorMetricsAnswer
from ridgeline.measure.answers.windows import LatencyTimesAnswer
from ridgeline.measure.metric import PREFIX, Kind
from ridgeline.measure.metrics import BY_NAME, GROUPS, METRICS
from ridgeline.measure.registry.operator_metric import Column, Read
from ridgeline.service.tables import TABLES

pytestmark = pytest.mark.lint

LABELS = set(
    "container host id level master operator partition pid port position promise reason stage state".split()  # noqa: SIM905
) | {"stream", "user", "verdict", "version", "what"}
UNITS = {"seconds", "bytes", "records", "windows", "tasks"}
OTHER_UNITS = ("milli", "micro", "nano", "_ms", "minutes", "hours", "kilo", "mega", "percent")


def test_names_are_unique_and_all_metrics_are_in_a_group():
    assert len(BY_NAME) == len(METRICS) == sum(map(len, GROUPS.values()))


def test_name():
    for metric in METRICS:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", metric.name), metric.name
        assert not metric.name.startswith(PREFIX), metric.name
        assert not any(unit in metric.name for unit in OTHER_UNITS), metric.name
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert metric.name.endswith("_info") == (metric.kind is Kind.INFO), metric.name
        assert not metric.name.endswith(("_count", "_sum", "_bucket")), metric.name
        assert not set(metric.name.split("_")) & (
            set(metric.labels) - {"operator", "container", "promise", "state", "verdict"}
        )


def test_unit():
    for metric in METRICS:
        assert metric.unit in UNITS | {""}, metric.name
        words = metric.name.split("_")
        if metric.unit in {"seconds", "bytes"}:
            assert words[-2 if metric.kind is Kind.COUNTER else -1] == metric.unit
        elif metric.unit:
            assert metric.unit in words
        assert (metric.unit == "seconds") == ("seconds" in words), metric.name


def test_labels():
    for metric in METRICS:
        assert set(metric.labels) <= LABELS, metric.name
        assert metric.all_labels[0] == "application", metric.name
        assert len(set(metric.all_labels)) == len(metric.all_labels), metric.name


def test_buckets_and_states():
    for metric in METRICS:
        assert bool(metric.bounds) == (metric.kind is Kind.HISTOGRAM), metric.name
        assert list(metric.bounds) == sorted(set(metric.bounds)), metric.name
        assert not metric.bounds or metric.bounds[-1] >= 600, metric.name  # tails of minutes are seen
        assert bool(metric.states) == (metric.kind is Kind.STATE), metric.name


def test_words():
    for metric in METRICS:
        assert metric.help[0].isupper() or metric.help[0].isdigit(), metric.name
        assert metric.help.endswith("."), metric.name
        assert metric.advice.endswith("."), metric.name


def test_kip_613_names_are_known():
    aliases = " ".join(alias for metric in METRICS for alias in metric.aliases)
    assert all(f"`record-e2e-latency-{statistic}`" in aliases for statistic in ("min", "max", "avg"))
    assert "Apex `latencyMA`" in aliases


# The fields of operators' metrics: each is read in one way, and shown wherever it says ----------------------


def test_each_is_read_in_one_way_and_shown_where_it_says() -> None:
    hints = get_type_hints(OperatorMetricsAnswer, include_extras=True)
    assert list(hints) == [row.name for row in OPERATOR_METRICS]
    for row in OPERATOR_METRICS:
        ways = [one for one in hints[row.name].__metadata__ if isinstance(one, Read | Column)]
        assert len(ways) == 1 or (not ways and row.name in LatencyTimesAnswer.__annotations__)
        if row.metric is not None:
            assert row.metric in METRICS
        if row.column is not None:
            assert row.name in [column.read for column in TABLES["operators"]]
        if row.graph is not None:
            assert row.metric is not None, "a line of the dashboard needs a metric"
