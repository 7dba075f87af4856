"""Advice on a running application, as it is shown."""

from __future__ import annotations

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.run import ApplicationRun
from ridgeline.measure.answers.advice import AdviceAnswer
from ridgeline.plan.edits import Repartition
from ridgeline.policies.advice import LEAST_WINDOWS, Advice, advise, unknown
from ridgeline.stram.watch import Watch

_SECONDS = 60.0


def advice_answer(watch: Watch, application: str, run: ApplicationRun | None = None) -> AdviceAnswer:
    """What would help, by the figures of the last minute; figures are kept from the first call on.

    What the run would refuse is not advised.
    """
    watch.keep_figures()
    changes = watch.changes()
    waiting = any(row["state"] == "QUEUED" and row["edits"] for row in changes)
    slots = None if run is None else run.slots
    figures = watch.application_figures(_SECONDS, changing=waiting, slots=slots)
    applied = (row for row in changes if row["state"] == "APPLIED" and row["planVersion"] is not None)
    since = figures.at - max((row["since"] for row in applied), default=0.0)
    if since < _SECONDS:  # of this plan only
        figures = figures.for_seconds(max(since, 0.0))
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
