"""Rules of alerts for Prometheus: of promises, and those that every application needs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ridgeline.api.policy import Promise, side
from ridgeline.measure.deciding.figures import PromiseState


def alert_rules(
    application: str,
    promises: Sequence[Promise | PromiseState] = (),
    *,
    window_seconds: float = 1.0,
    wait: str = "1m",
) -> dict[str, Any]:
    """The rule file of an application, to be written as YAML or JSON.

    One alert for each promise, and those that every application needs. Its driver is gone, it has failed, is
    stuck, commits nothing, or has fewer slots than it wants. `window_seconds`: the width of its windows.
    `wait`: how long something has to be so, as Prometheus writes durations.
    """
    rules = [*_rules(application, window_seconds, wait), *(_rule(application, one, wait) for one in promises)]
    return {"groups": [{"name": f"ridgeline {_literal(application)}", "rules": rules}]}


def _rules(application: str, window_seconds: float, wait: str) -> Iterator[dict[str, Any]]:
    """The alerts of every application."""
    labels = f"application={_quoted(application)}"
    running = f'ridgeline_application_state{{{labels},state="RUNNING"}} == 1'
    minutes = max(5, math.ceil(3 * window_seconds / 60))
    stuck = 'verdict=~"stuck|unreachable"'
    named = _literal(application)
    yield _alert(
        "RidgelineDriverGone",
        f"absent(ridgeline_application_start_timestamp_seconds{{{labels}}})",
        "2m",
        f"{named}: no driver answers",
        "See whether its process runs, and start it again: it continues from its checkpoint.",
        severity="critical",
        application=named,
    )
    yield _alert(
        "RidgelineFailed",
        f'ridgeline_application_state{{{labels},state="FAILED"}} == 1',
        "0s",
        f"{named}: the run has failed",
        "The reason is in the driver's log. The same command continues from its checkpoint.",
        severity="critical",
    )
    yield _alert(
        "RidgelineStuck",
        f"ridgeline_verdict{{{labels},{stuck}}} == 1",
        wait,
        f"{named}: {{{{ $labels.verdict }}}}",
        "`ridgeline status` says at what: an operator, a source or an output.",
    )
    yield _alert(
        "RidgelineNoCommit",
        f"increase(ridgeline_windows_committed_total{{{labels}}}[{minutes}m]) == 0"
        f" and on (application, instance) {running}",
        wait,
        f"{named}: no window was committed for {minutes} minutes",
        "`ridgeline status` says why; `ridgeline lines --stack` shows where a container is.",
        severity="critical",
    )
    yield _alert(
        "RidgelineSlotsReduced",
        f"ridgeline_slots{{{labels}}} < ridgeline_slots_wanted{{{labels}}}",
        "10m",
        f"{named}: {{{{ $value }}}} slots only",
        "Spark has no cores for more, or hosts are out of reach. Containers spread again once it has.",
    )


def _rule(application: str, promise: Promise | PromiseState, wait: str) -> dict[str, Any]:
    """The alert of one promise; labels are quoted as PromQL quotes them, which is JSON's way."""
    labels = f"application={_quoted(application)},promise={_quoted(promise.name)}"
    of = f" of {promise.operator}" if promise.operator else ""
    summary = (
        f"{application}: {promise.kind}{of} is not {side(promise.kind)} {promise.limit:g} {promise.unit}"
    )
    return _alert(
        "RidgelinePromiseBroken",
        f"ridgeline_promise_kept{{{labels}}} == 0",
        wait,
        _literal(summary),
        "`ridgeline promises` shows since when; `ridgeline critical-path` what takes the time.",
        promise=_literal(promise.name),
    )


def _alert(
    name: str,
    expression: str,
    wait: str,
    summary: str,
    description: str,
    severity: str = "warning",
    **labels: str,
) -> dict[str, Any]:
    """An alert as Prometheus reads it."""
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": severity, **labels},
        "annotations": {"summary": summary, "description": description},
    }


def _literal(text: str) -> str:
    """A text in which Prometheus finds no template."""
    return text.replace("{{", "{ {")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
