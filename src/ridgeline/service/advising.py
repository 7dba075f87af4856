"""Advice on a running application, as it is shown."""

from __future__ import annotations

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.measure.answers.advice import AdviceAnswer
from ridgeline.measure.deciding.fold import KEPT_SECONDS
from ridgeline.observe.watch import Watch
from ridgeline.plan.edits import Repartition
from ridgeline.policies.advice import LEAST_WINDOWS, Advice, advise, unknown

_PERIODS = (60.0, 300.0, KEPT_SECONDS)
"""Figures are of the first of these that has enough windows."""


def advice_answer(watch: Watch, application: str, run: ApplicationRun | None = None) -> AdviceAnswer:
    """Advice from the figures of the last minute, or of a longer time if windows take long.

    The first call begins with the last windows; from then on all are kept. What the run would refuse is not
    advised.
    """
    watch.keep_figures()
    changes = watch.changes()
    waiting = any(row["state"] == "QUEUED" and row["edits"] for row in changes)
    slots = None if run is None else run.slots
    figures = watch.application_figures(_PERIODS[0], changing=waiting, slots=slots)
    applied = (row for row in changes if row["state"] == "APPLIED" and row["planVersion"] is not None)
    since = figures.at - max((row["since"] for row in applied), default=0.0)
    for seconds in _PERIODS:
        figures = figures.for_seconds(max(0.0, min(seconds, since)))  # of this plan only
        if figures.windows >= LEAST_WINDOWS:
            break
    advice, refused = [], []
    for one in advise(figures):
        why = "" if run is None else _refusal(run, one)
        if why:
            refused.append(f"not advised, as it would be refused: {one.what}; {why}")
        else:
            advice.append(one)
    return {
        "seconds": figures.seconds,
        "windows": figures.windows,
        "enough": figures.windows >= LEAST_WINDOWS,
        "needed": LEAST_WINDOWS,
        "latencySeconds": figures.window_latency.p50_seconds if figures.window_latency.count else None,
        "unknown": [*unknown(figures), *refused],
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
            for one in advice
        ],
    }


def _refusal(run: ApplicationRun, advice: Advice) -> str:
    """Why the run would not do what is advised; "" if it would, as far as is known before."""
    if advice.partitions is None:
        return ""
    try:
        run.preview((Repartition(advice.operator, advice.partitions),))
    except RidgelineError as error:
        faults = getattr(error, "faults", ())
        return f"{faults[0].what}; {faults[0].remedy}" if faults else str(error)
    return ""
