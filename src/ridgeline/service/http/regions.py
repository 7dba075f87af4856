"""The endpoints about regions: how each is, and stopping and starting one."""

from __future__ import annotations

from typing import Annotated

from ridgeline.measure.answers.regions import RegionAnswer, RegionsAnswer
from ridgeline.observe.watch import Watch
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.regions.region_run import RegionRun, state_of
from ridgeline.regions.view import RegionView
from ridgeline.service.access.roles import Role
from ridgeline.service.http.endpoint import AnswerError, Call, Rows, Within, unknown

Wait = Annotated[int, Within(0, 30)]
_RUNS_NOT = "the application has one region"


REGIONS = Rows()


@REGIONS.question("/regions")
def _all(call: Call) -> RegionsAnswer:
    """The regions into which decoupled streams divide the application, and the queues between them."""
    watch = call.watch
    if isinstance(watch, JoinedWatch):
        return watch.region_answers()
    return {"sentence": "", "regions": []}


@REGIONS.request("/regions/{name}/stop", role=Role.OPERATE)
def _stop(call: Call, name: str, wait: Wait = 5) -> RegionAnswer:
    """End a region after the windows under way.

    Args:
        call: The request.
        name: the name of a region, from `/regions`
        wait: how many seconds the answer waits until it has ended or started; default: 5
    """
    region = view_of(call.watch, name).region
    if not region.is_running:
        raise AnswerError(409, f"region `{region.name}` does not run", f"it is {state_of(region).lower()}")
    region.halt()
    region.join(wait)
    return _row(call.watch, region.name)


@REGIONS.request("/regions/{name}/start", role=Role.OPERATE)
def _start(call: Call, name: str, wait: Wait = 5) -> RegionAnswer:
    """Start a region from its checkpoint, once it has failed or was stopped.

    Args:
        call: The request.
        name: the name of a region, from `/regions`
        wait: how many seconds the answer waits until it has ended or started; default: 5
    """
    region: RegionRun = view_of(call.watch, name).region
    if region.is_running:
        raise AnswerError(
            409,
            f"region `{region.name}` runs",
            "it is about to end; ask again" if region.stop.is_set() else "stop it first to start it again",
        )
    region.start()
    region.wait_until_started(wait)
    return _row(call.watch, region.name)


def answers_of(call: Call, region: str | None) -> Watch | RegionView:
    """The figures of a region, or of the application. Raises AnswerError (404)."""
    return call.watch if region is None else view_of(call.watch, region)


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
