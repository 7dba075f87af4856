"""The answers of a run that is read from its log: its figures, and the plan that the log keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ridgeline.observe.answers import Answers
from ridgeline.plan.execution import Plan
from ridgeline.service.http.answers import LogicalPlanAnswer, LogicalPlanOperatorAnswer
from ridgeline.service.http.changing import changing_endpoints
from ridgeline.service.http.configuration import configuration_endpoints
from ridgeline.service.http.endpoint import AnswerError, Call, Endpoint
from ridgeline.service.http.endpoints import BASE, JSON_ENDPOINTS
from ridgeline.service.http.kept import kept_endpoints, worst
from ridgeline.service.http.querying import querying_endpoints
from ridgeline.service.http.regions import region_endpoints
from ridgeline.service.page.live import KeptPlan

NOT_KEPT = "not kept"
_NEEDS = "a run that is read from its log cannot be asked for this"
_HINT = "it needs the running application; `ridgeline ps` lists those that run"
ENDPOINTS: tuple[Endpoint, ...] = (
    *JSON_ENDPOINTS,
    *changing_endpoints(BASE),
    *querying_endpoints(BASE),
    *region_endpoints(BASE),
    *kept_endpoints(BASE),
    *configuration_endpoints(BASE),
)


def needs_running() -> AnswerError:
    """The answer to what only a running application can do."""
    return AnswerError(409, _NEEDS, _HINT)


class _NoPlan:
    """Stands for the plan, of which a log has only what it shows."""

    def __getattr__(self, name: str) -> Any:
        raise needs_running()


@dataclass(frozen=True, slots=True)
class EndedCall(Call):
    """A request about a run of which nothing runs any more, and of which the log keeps the plan."""

    kept: KeptPlan = field(kw_only=True)

    @property
    def running(self) -> Any:
        """Raises AnswerError (409)."""
        raise needs_running()

    @property
    def application(self) -> str:
        """The name of the application."""
        return self.kept.application

    @property
    def logical_plan(self) -> LogicalPlanAnswer:
        """The plan as its author wrote it."""
        return self.kept.answer

    def classes(self) -> Mapping[str, str]:
        """The class of each logical operator, by its name."""
        return {one["name"]: one["class"] for one in self.kept.answer["operators"]}

    def planned(self, name: str) -> LogicalPlanOperatorAnswer:
        """A logical operator that there is, as the plan has it."""
        return next(one for one in self.kept.answer["operators"] if one["name"] == name)


def answer(endpoint: Endpoint, watch: Answers, plan: KeptPlan, values: Mapping[str, Any]) -> Any:
    """The answer of an endpoint. Raises AnswerError, with 409 for what needs the running application."""
    handler = _OWN.get(endpoint.path) or endpoint.handler
    if endpoint.method != "GET" or handler is None:
        raise needs_running()
    return handler(EndedCall(watch, cast("Plan", _NoPlan()), values, kept=plan))


# Answers that a running application makes of its plan, or of its run ---------------------------------------


def _changes(call: EndedCall) -> Any:
    return {"changes": [{**row, "result": ""} for row in call.watch.changes()]}


def _sinks(call: EndedCall) -> Any:
    """The operators that have published, or that nothing reads from; where they write is not in a log."""
    watch, plan = call.watch, call.kept.answer
    ages, seen = watch.record_age(), {row["operator"]: row for row in watch.outputs()}
    read = {stream["source"]["operatorName"] for stream in plan["streams"]}
    sinks = []
    for one in plan["operators"]:
        name = one["name"]
        shown: Mapping[str, Any] = seen.get(name, {})
        if name in read and not shown:
            continue
        sinks.append(
            {
                "operator": name,
                "className": one["class"],
                "place": None,
                "protocol": NOT_KEPT,
                "mode": str(one["attributes"].get("processing_mode", "")),
                "partitions": len(watch.topology.partitions_of(name)) or 1,
                "visibleWindow": shown.get("visibleWindow"),
                "visibleAt": shown.get("visibleAt"),
                "timesPublished": shown.get("timesPublished", 0),
                "problem": shown.get("problem", ""),
                "committedAge": worst(ages, name, "commit"),
                "visibleAge": worst(ages, name, "publish"),
            }
        )
    return {"sinks": sinks}


def _checkpoints(call: EndedCall) -> Any:
    folder = call.watch.info().get("checkpoint") or ""
    return {
        "folder": folder,
        "windowsKept": call.kept.answer["attributes"].get("windows_kept"),
        "windows": [],
        "note": "A log does not say what its checkpoint keeps: `ridgeline checkpoint describe DIR` does.",
    }


def _configuration(call: EndedCall) -> Any:
    """The values of the plan; who set them is not in a log."""
    plan = call.kept.answer

    def rows() -> Iterator[dict[str, Any]]:
        for name, value in plan["attributes"].items():
            yield {"key": f"application.{name}", "operator": "", "value": value}
        for one in plan["operators"]:
            for name, value in {**one["attributes"], **one["properties"]}.items():
                yield {"key": f"operator.{one['name']}.{name}", "operator": one["name"], "value": value}

    values = [{**row, "layer": "", "place": "", "insteadOf": [], "choices": []} for row in rows()]
    return {"known": False, "values": values}


def _refuse(_call: EndedCall) -> Any:
    raise needs_running()


_OWN: Mapping[str, Callable[[Any], Any]] = {
    f"{BASE}/changes": _changes,
    f"{BASE}/sinks": _sinks,
    f"{BASE}/checkpoints": _checkpoints,
    f"{BASE}/configuration": _configuration,
    f"{BASE}/versions": lambda call: {"ridgeline": call.watch.info().get("version") or ""},
    f"{BASE}/keys": _refuse,
    f"{BASE}/debugDump": _refuse,
}
