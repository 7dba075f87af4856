"""Write docs/metrics.md and docs/grafana/ridgeline.json: `python scripts/write_metrics_page.py`."""

from __future__ import annotations

import json
from pathlib import Path

from grafana import dashboard
from ridgeline.measure.age.record_age import AGE_BOUNDS_SECONDS
from ridgeline.measure.metric import LATENCY_BOUNDS_SECONDS, Kind, Metric
from ridgeline.measure.metrics import GROUPS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "metrics.md"
DASHBOARD = DOCS / "grafana" / "ridgeline.json"
HEAD = """# Metrics

Let Prometheus scrape the port that `ridgeline run app.py --port 9400` listens on:

```yaml
scrape_configs:
  - job_name: ridgeline
    static_configs:
      - targets: ["localhost:9400"]
    # A service on another address than the loopback one asks for its token, which `ridgeline run` prints at
    # start: authorization: {credentials: TOKEN}. One with TLS needs `scheme: https` as well: see security.md.
```

A [collector of OpenTelemetry](telemetry.md) scrapes them the same way. A dashboard of Grafana:
import [grafana/ridgeline.json](grafana/ridgeline.json) and choose your data source.

What to do stands in italics; `like` names the metrics of other systems. Every metric has the label
`application` beside those listed. `operator` is the name of a logical operator, or `NAME.PORT#unifier` for a
unifier; `partition` counts from 0. Labels take only values that the plan has, so their number is bounded.
[Metrics of your own](guide/metrics.md) follow those of this page, as `ridgeline_metric_...`. The page is made
from `ridgeline.measure.metrics` by `python scripts/write_metrics_page.py`.

- A counter counts from the start of the run. Windows count once they are committed; no scrape shows half of
  one.
- A histogram is cumulative and mergeable: take quantiles after `sum by (le)`, never an average of quantiles.
- A metric whose value is not known, or infinite, is absent: never NaN, never 0.
- An info is a gauge that is 1 and says all with its labels. A state is a gauge for each value of its last
  label: 1 for the one that holds, else 0.
"""


def render() -> str:
    """The page's text."""
    latencies, ages = (
        ", ".join(f"{bound:g}" for bound in bounds) for bounds in (LATENCY_BOUNDS_SECONDS, AGE_BOUNDS_SECONDS)
    )
    parts = [HEAD, f"- Buckets of latencies end at {latencies} seconds, those of record ages at {ages}.\n"]
    for group, metrics in GROUPS.items():
        parts.append(f"\n## {group}\n")
        parts += [_describe(metric) for metric in metrics]
    return "".join(parts)


def render_dashboard() -> str:
    """The dashboard's text."""
    return json.dumps(dashboard(), indent=2) + "\n"


def _describe(metric: Metric) -> str:
    facts = str(metric.kind).capitalize()
    if metric.labels:
        facts += " by " + ", ".join(f"`{label}`" for label in metric.labels)
    if metric.kind is Kind.HISTOGRAM:
        facts += f", buckets up to {metric.bounds[0]:g} ... {metric.bounds[-1]:g}"
    if metric.states:
        facts += ": " + ", ".join(f"`{state}`" for state in metric.states)
    if metric.aliases:
        facts += "; like " + ", ".join(metric.aliases)
    return f"\n### `{metric.full_name}`\n\n{metric.help} *{metric.advice}*\n\n{facts}\n"


if __name__ == "__main__":
    DASHBOARD.parent.mkdir(exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8")
    DASHBOARD.write_text(render_dashboard(), encoding="utf-8")
