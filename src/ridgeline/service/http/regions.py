"""The endpoints about regions: how each is, and stopping and starting one."""

from __future__ import annotations

from ridgeline.measure.answers.regions import RegionAnswer, RegionsAnswer
from ridgeline.observe.watch import Watch
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.regions.region_run import RegionRun, state_of
from ridgeline.regions.view import RegionView
from ridgeline.service.access.roles import Role
from ridgeline.service.http.endpoint import AnswerError, Call, Parameter, Rows, unknown

REGION = Parameter("region", "string", "the name of a region, from `/regions`; default: all of them")
_NAME = Parameter("name", "string", "the name of a region, from `/regions`")
_WAIT = Parameter(
    "wait", "integer", "how many seconds the answer waits until it has ended or started; default: 5", 0, 30
)
_WAIT_SECONDS = 5
_RUNS_NOT = "the application has one region"


REGIONS = Rows()


@REGIONS.question("/regions")
def _all(call: Call) -> RegionsAnswer:
    """The regions into which decoupled streams divide the application, and the queues between them."""
    watch = call.watch
    if isinstance(watch, JoinedWatch):
        return watch.region_answers()
    return {"sentence": "", "regions": []}


@REGIONS.request("/regions/{name}/stop", _NAME, role=Role.OPERATE, body=(_WAIT,))
def _stop(call: Call) -> RegionAnswer:
    """End a region after the windows under way."""
    region = view_of(call.watch, call["name"]).region
    if not region.is_running:
        raise AnswerError(409, f"region `{region.name}` does not run", f"it is {state_of(region).lower()}")
    region.halt()
    region.join(call.values.get("wait", _WAIT_SECONDS))
    return _row(call.watch, region.name)


@REGIONS.request("/regions/{name}/start", _NAME, role=Role.OPERATE, body=(_WAIT,))
def _start(call: Call) -> RegionAnswer:
    """Start a region from its checkpoint, once it has failed or was stopped."""
    region: RegionRun = view_of(call.watch, call["name"]).region
    if region.is_running:
        raise AnswerError(
            409,
            f"region `{region.name}` runs",
            "it is about to end; ask again" if region.stop.is_set() else "stop it first to start it again",
        )
    region.start()
    region.wait_until_started(call.values.get("wait", _WAIT_SECONDS))
    return _row(call.watch, region.name)


def answers_of(call: Call) -> Watch | RegionView:
    """The figures of the region that is asked for, or of the application. Raises AnswerError (404)."""
    name = call.get("region")
    return call.watch if name is None else view_of(call.watch, name)


def view_of(watch: Watch, name: str) -> RegionView:
    """The figures of a region. Raises AnswerError (404) if the application has none of this name."""
    if not isinstance(watch, JoinedWatch):
        raise AnswerError(404, f"there is no region `{name[:100]}`", _RUNS_NOT)
    try:
        return watch.of(name)
    except KeyError:
        raise unknown("region", name, [view.name for view in watch.views]) from None


def _row(watch: Watch, name: str) -> RegionAnswer:
    view_of(watch, name)
    assert isinstance(watch, JoinedWatch)  # noqa: S101  as it has the region
    return next(row for row in watch.region_answers()["regions"] if row["name"] == name)
