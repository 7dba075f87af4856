"""The Grafana dashboard, made from the registry of metrics."""

from __future__ import annotations

from grafana_rows import ALL, ROWS, Panel, Query, is_moment
from ridgeline.measure.metric import PREFIX, Kind
from ridgeline.measure.metrics import BY_NAME
from ridgeline.service.export.prometheus import OWN_PREFIX

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_UNITS = {"seconds": "s", "bytes": "bytes", "records": "short", "windows": "short"}
_WIDTH = 24
OWN_ROW = "Metrics of operators"
_COLOURS = {
    "RUNNING": "green",
    "PAUSED": "purple",
    "FINISHED": "blue",
    "STOPPED": "yellow",
    "FAILED": "red",
    "keeping up": "green",
    "paced": "green",
    "catching up": "blue",
    "not catching up": "yellow",
    "settling": "text",
    "falling behind": "orange",
    "stuck": "red",
    "unreachable": "red",
    "unknown": "text",
}


def dashboard() -> dict[str, object]:
    """The dashboard as Grafana (10 or newer) imports it.

    Its variables ask for data source, application, operators, and metrics that operators declare.
    """
    panels: list[dict[str, object]] = []
    top = 0
    for row, members in ROWS.items():
        panels.append(_row(row, len(panels) + 1, top))
        top += 1
        left = tallest = 0
        for panel in members:
            if left + panel.width > _WIDTH:
                left, top, tallest = 0, top + tallest, 0
            panels.append(_panel(panel, len(panels) + 1, _place(left, top, panel.width, panel.height)))
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest
    panels += _own_panels(len(panels) + 1, top)
    return {
        "uid": "ridgeline",
        "title": "Ridgeline",
        "description": "A streaming application: where its time goes, how old its records are, "
        "whether it keeps up.",
        "tags": ["ridgeline"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": [_changes()]},
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _row(title: str, number: int, top: int) -> dict[str, object]:
    """The head of a row of panels."""
    place = _place(0, top, _WIDTH, 1)
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        "gridPos": place,
    }


def _own_panels(number: int, top: int) -> list[dict[str, object]]:
    """A row with a panel for each metric that operators declare: counters as rates, gauges as they are.

    Grafana makes them of two, one for each value of a variable.
    """
    chosen = f'{{{ALL}, operator=~"$operator"}}'
    found = [_row(OWN_ROW, number, top)]
    for place, (variable, query) in enumerate(
        (
            ("counter", f"rate(${{counter}}{chosen}[$__rate_interval])"),
            ("gauge", f"${{gauge}}{chosen}"),
        )
    ):
        target = {
            "refId": "A",
            "datasource": _SOURCE,
            "expr": f"sum by (operator, partition) ({query})",
            "legendFormat": "{{operator}} {{partition}}",
            "format": "time_series",
            "instant": False,
            "range": True,
        }
        defaults: dict[str, object] = {"unit": "cps" if variable == "counter" else "short"}
        found.append(
            {
                "id": number + 1 + place,
                "type": "timeseries",
                "title": f"${variable}",
                "description": "A metric that operators declare; its author's words are its help.",
                "datasource": _SOURCE,
                "gridPos": _place(0, top + 1 + 8 * place, _WIDTH, 8),
                "repeat": variable,
                "repeatDirection": "h",
                "maxPerRow": 3,
                "targets": [target],
                "fieldConfig": {"defaults": defaults, "overrides": []},
                "options": {"legend": {"displayMode": "list", "placement": "bottom", "calcs": []}},
            }
        )
    return found


def _changes() -> dict[str, object]:
    """A mark in all panels where the plan has changed."""
    version = BY_NAME["plan_version"].full_name
    return {
        "name": "Changes of the plan",
        "datasource": _SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "purple",
        "expr": f"changes({version}{{{ALL}}}[$__rate_interval]) > 0",
        "step": "10s",
        "titleFormat": "the plan has changed",
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _variables() -> list[dict[str, object]]:
    """The dashboard's variables: data source, application, operators."""
    chosen = BY_NAME["application_info"].full_name
    operators = BY_NAME["operator_windows_behind"].full_name
    own = f'__name__=~"{PREFIX}{OWN_PREFIX}.+", {ALL}'
    counters = f'label_values({{{own}, __name__=~".+_total"}}, __name__)'
    gauges = f'label_values({{{own}, __name__!~".+_total"}}, __name__)'
    return [
        {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "refresh": 1,
            "hide": 0,
        },
        _label_values("application", "Application", f"label_values({chosen}, application)", several=False),
        _label_values("operator", "Operator", f"label_values({operators}{{{ALL}}}, operator)", several=True),
        _label_values("counter", "Declared counters", counters, several=True),
        _label_values("gauge", "Declared gauges", gauges, several=True),
    ]


def _label_values(name: str, label: str, query: str, *, several: bool) -> dict[str, object]:
    """A variable whose values are those of a label."""
    every = {"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}} if several else {}
    asked = {"query": query, "refId": name}
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": asked,
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "multi": several,
        "includeAll": several,
        **every,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, object]:
    """A panel with its queries, at its place in the grid."""
    first = BY_NAME[panel.queries[0].metric]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": f"{first.help} {first.advice}",
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [
            _target(query, panel.kind, reference)
            for reference, query in zip("ABCDEFGH", panel.queries, strict=False)
        ],
        "fieldConfig": {
            "defaults": _defaults(panel),
            "overrides": [_coloured(state) for state in first.states if panel.kind == "stat"],
        },
        "options": _options(panel),
    }


def _target(query: Query, kind: str, reference: str) -> dict[str, object]:
    table = kind == "table"
    return {
        "refId": reference,
        "datasource": _SOURCE,
        "expr": query.expression(),
        "legendFormat": query.legend or "__auto",
        "format": "table" if table else "heatmap" if kind == "heatmap" else "time_series",
        "instant": kind in {"table", "stat"},
        "range": kind not in {"table", "stat"},
    }


def _unit(panel: Panel) -> str:
    """Grafana's unit of a metric; a rate of seconds per second is a share of the time."""
    metric = BY_NAME[panel.queries[0].metric]
    if metric.kind is Kind.COUNTER:
        return "percentunit" if metric.unit == "seconds" else "cps"
    if is_moment(metric):
        return "dateTimeFromNow"
    return _UNITS.get(metric.unit, "short")


def _defaults(panel: Panel) -> dict[str, object]:
    """How a panel shows values: their unit, how lines are drawn and stacked."""
    defaults: dict[str, object] = {"unit": _unit(panel)}
    if panel.kind == "timeseries":
        mode = "normal" if panel.stacked else "none"
        defaults["custom"] = {
            "stacking": {"mode": mode, "group": "A"},
            "fillOpacity": 60 if panel.stacked else 0,
            "drawStyle": "line",
        }
        if panel.stacked:
            defaults["min"] = 0
    return defaults


def _coloured(state: str) -> dict[str, object]:
    colour = {"id": "color", "value": {"mode": "fixed", "fixedColor": _COLOURS[state]}}
    return {"matcher": {"id": "byName", "options": state}, "properties": [colour]}


def _options(panel: Panel) -> dict[str, object]:
    """A panel's options by its type."""
    if panel.kind == "stat":
        state = BY_NAME[panel.queries[0].metric].kind is Kind.STATE
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "name" if state else "auto",
        }
    if panel.kind == "heatmap":
        return {
            "calculate": False,
            "yAxis": {"unit": _unit(panel)},
            "color": {"mode": "scheme", "scheme": "Oranges"},
        }
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {}
