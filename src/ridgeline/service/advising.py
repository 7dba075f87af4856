"""Advice on a running application, as it is shown."""

from __future__ import annotations

from ridgeline.measure.answers.advice import AdviceAnswer
from ridgeline.policies.advice import LEAST_WINDOWS, advise
from ridgeline.stram.watch import Watch

_SECONDS = 60.0


def advice_answer(watch: Watch, application: str) -> AdviceAnswer:
    """What would help, by the figures of the last minute; figures are kept from the first call on."""
    watch.keep_figures()
    figures = watch.application_figures(_SECONDS)
    return {
        "seconds": figures.seconds,
        "windows": figures.windows,
        "enough": figures.windows >= LEAST_WINDOWS,
        "latencySeconds": figures.window_latency.p50_seconds if figures.window_latency.count else None,
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
