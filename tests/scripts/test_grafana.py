"""The Grafana dashboard."""

import json
import re

import pytest

from grafana import dashboard
from grafana_rows import ROWS, Query
from ridgeline.measure.metric import PREFIX, Kind
from ridgeline.measure.metrics import BY_NAME, METRICS

PANELS = dashboard()["panels"]
pytestmark = pytest.mark.lint


def expressions():
    return [target["expr"] for panel in PANELS for target in panel.get("targets", [])]


def test_it_is_a_dashboard_that_can_be_imported():
    made = dashboard()
    assert json.loads(json.dumps(made)) == made
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time", "refresh"} <= set(made)
    assert [(variable["name"], variable["type"]) for variable in made["templating"]["list"]] == [
        ("datasource", "datasource"),
        ("application", "query"),
        ("operator", "query"),
        ("counter", "query"),
        ("gauge", "query"),
    ]
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        assert panel["type"] in {"row", "stat", "timeseries", "heatmap", "table"}
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            references = [target["refId"] for target in panel["targets"]]
            assert references == sorted(set(references))
            assert panel["description"]


def test_panels_do_not_overlap():
    taken = set()
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_every_metric_is_shown_and_no_other():
    named = set(re.findall(rf"{PREFIX}[a-z_]+", " ".join(expressions())))
    shown = {name.removesuffix("_bucket") for name in named}
    assert shown == {metric.full_name for metric in METRICS}


def test_labels_exist():
    for row in ROWS.values():
        for panel in row:
            for query in panel.queries:
                metric = BY_NAME[query.metric]
                assert set(query.by) <= set(metric.labels)
                assert not query.operators or "operator" in metric.labels
                known = set(query.by) if metric.kind not in {Kind.STATE, Kind.INFO} else set(metric.labels)
                assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= known | {"le"}


@pytest.mark.parametrize(
    ("query", "expression"),
    [
        (
            Query("operator_compute_seconds_total", ("operator",), operators=True),
            (
                "sum by (operator) (rate(ridgeline_operator_compute_seconds_total"
                '{application="$application", operator=~"$operator"}[5m]))'
            ),
        ),
        (
            Query("window_latency_seconds", quantile=0.99),
            (
                "histogram_quantile(0.99, sum by (le) (rate(ridgeline_window_latency_seconds_bucket"
                '{application="$application"}[5m])))'
            ),
        ),
        (Query("verdict"), 'ridgeline_verdict{application="$application"} == 1'),
        (
            Query("last_commit_timestamp_seconds"),
            '1000 * max by () (ridgeline_last_commit_timestamp_seconds{application="$application"})',
        ),
    ],
)
def test_queries_by_kind(query, expression):
    assert query.expression().replace("$__rate_interval", "5m") == expression
