"""Rules by which Prometheus alerts when a promise is broken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ridgeline.api.policy import Promise
from ridgeline.measure.deciding.figures import PromiseState


def alert_rules(application: str, promises: Sequence[Promise | PromiseState]) -> dict[str, Any]:
    """The rule file of an application, to be written as YAML or JSON: one alert for each promise."""
    rules = [_rule(application, promise) for promise in promises]
    return {"groups": [{"name": f"ridgeline {application}", "rules": rules}]}


def _rule(application: str, promise: Promise | PromiseState) -> dict[str, Any]:
    """The alert of one promise; labels are quoted as PromQL quotes them, which is JSON's way."""
    labels = f"application={_quoted(application)},promise={_quoted(promise.name)}"
    of = f" of {promise.operator}" if promise.operator else ""
    side = "at least" if promise.kind == "throughput" else "at most"
    summary = f"{application}: {promise.kind}{of} is not {side} {promise.limit:g} {promise.unit}"
    return {
        "alert": "RidgelinePromiseBroken",
        "expr": f"ridgeline_promise_kept{{{labels}}} == 0",
        "labels": {"severity": "warning", "promise": promise.name.replace("{{", "{ {")},
        "annotations": {"summary": summary.replace("{{", "{ {")},
    }


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
