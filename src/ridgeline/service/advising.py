"""Advice on a running application, as it is shown."""

from __future__ import annotations

from ridgeline.measure.answers.advice import AdviceAnswer
from ridgeline.policies.advice import LEAST_WINDOWS, advise, unknown
from ridgeline.stram.watch import Watch

_SECONDS = 60.0


def advice_answer(watch: Watch, application: str) -> AdviceAnswer:
    """What would help, by the figures of the last minute; figures are kept from the first call on."""
    watch.keep_figures()
    changes = watch.changes()
    waiting = any(row["state"] == "QUEUED" and row["edits"] for row in changes)
    figures = watch.application_figures(_SECONDS, changing=waiting)
    applied = (row for row in changes if row["state"] == "APPLIED" and row["planVersion"] is not None)
    since = figures.at - max((row["since"] for row in applied), default=0.0)
    if since < _SECONDS:  # of this plan only
        figures = figures.for_seconds(max(since, 0.0))
    return {
        "seconds": figures.seconds,
        "windows": figures.windows,
        "enough": figures.windows >= LEAST_WINDOWS,
        "latencySeconds": figures.window_latency.p50_seconds if figures.window_latency.count else None,
        "unknown": unknown(figures),
        "blame": dict(figures.blame),
        "advice": [
            {
                "what": one.what,
                "why": one.why,
                "operator": one.operator,
                "figure": one.figure,
                "before": one.before,
                "after": one.after,
                "command": f"ridgeline {one.command.replace('APP', application, 1)}" if one.command else "",
            }
            for one in advise(figures)
        ],
    }
