"""Answers to probes of a cluster: whether the application works, and whether it is ready."""

from __future__ import annotations

from ridgeline.api.operator import SparkSource
from ridgeline.observe.watch import Watch
from ridgeline.plan.execution import Plan
from ridgeline.regions.joined_run import AnyRun
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.regions.region_run import state_of
from ridgeline.service.http.answers import HealthAnswer, ReadyAnswer
from ridgeline.service.http.bodies import AnswerError
from ridgeline.service.http.endpoint import Call, Rows

_NOT_READY = 503


def health_of(watch: Watch) -> HealthAnswer:
    """The health of the application, in a word."""
    state = watch.info()["state"]
    if state == "RUNNING":
        if isinstance(watch, JoinedWatch) and any(state_of(one) == "FAILED" for one in watch.regions):
            return {"status": "region failed"}
        return {"status": "stuck" if watch.progress()["application"]["verdict"] == "stuck" else "ok"}
    return {"status": state.lower()}


PROBES = Rows("")


@PROBES.question("/healthz", tag="info", open=True)
def _health(call: Call) -> HealthAnswer:
    """Whether the application works. The status is 200 as long as the service answers."""
    return health_of(call.watch)


@PROBES.question("/readyz", tag="info", open=True, unavailable="It is not ready; `error` says why.")
def _ready(call: Call) -> ReadyAnswer:
    """Whether this driver commits windows.

    200 once it has committed its first one, 503 with the reason before, after the end, and while it is stuck.

    Raises AnswerError (503).
    """
    why = why_unready(call.watch, call.plan, call.run)
    info = call.watch.info()
    committed = info["stats"]["windowsCommitted"] if "id" in info else 0
    if why:
        what = f"not ready: {why}"
        raise AnswerError(
            _NOT_READY, what, "ask again soon; `ridgeline status` says more", {"retry-after": "1"}
        )
    return {"status": "ready", "windowsCommitted": committed}


def why_unready(watch: Watch, plan: Plan, run: AnyRun | None) -> str:
    """Why a driver commits no windows, if it waits for more than input; "" if it is ready."""
    info = watch.info()
    if "id" not in info:
        return "it starts: nothing is planned yet"
    status = health_of(watch)["status"]
    if status not in {"ok", "paused"}:
        return f"it is {status}"
    waits = run is not None and _waits_for_input(watch, plan)
    if status == "paused" or info["stats"]["windowsCommitted"] or waits:
        return ""
    return "it has not committed its first window"


def _waits_for_input(watch: Watch, plan: Plan) -> bool:
    """Whether no window begins as a Spark source has nothing new."""
    has_query = any(isinstance(one.operator, SparkSource) for one in plan.logical.operators)
    return has_query and not watch.progress()["running"]
