"""The answers of a run that is read from its log: its figures, and the plan that the log keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.own_metrics import by_operator
from ridgeline.observe.answers import Answers
from ridgeline.plan.execution import Plan
from ridgeline.service.advising import advice_answer
from ridgeline.service.http import apex
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


@dataclass(frozen=True, slots=True)
class _EndedCall(Call):
    """A request about a run of which nothing runs any more."""

    @property
    def running(self) -> Any:
        """Raises AnswerError (409)."""
        raise needs_running()


class _NoPlan:
    """Stands for the plan, of which a log has only what it shows."""

    def __getattr__(self, name: str) -> Any:
        raise needs_running()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a run: its figures, its plan, and the parameters of the question."""

    watch: Answers
    plan: KeptPlan
    values: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """A parameter, None if it was not given."""
        return self.values.get(name)

    def operator(self) -> dict[str, Any]:
        """The logical operator that is asked for. Raises AnswerError (404)."""
        name = self.values["name"]
        operators = {one["name"]: one for one in self.plan.answer["operators"]}
        if name not in operators:
            raise AnswerError(404, f"there is no logical operator `{name}`", did_you_mean(name, operators))
        return cast("dict[str, Any]", operators[name])


def answer(endpoint: Endpoint, asked: Asked) -> Any:
    """The answer of an endpoint. Raises AnswerError, with 409 for what needs the running application."""
    handler = _OWN.get(endpoint.path)
    if endpoint.method != "GET":
        raise needs_running()
    if handler is not None:
        return handler(asked)
    if endpoint.handler is None:
        raise needs_running()
    return endpoint.handler(_EndedCall(asked.watch, cast("Plan", _NoPlan()), asked.values))


# Answers that a running application makes of its plan, or of its run ---------------------------------------


def _one_of(values: Mapping[str, Any], name: str | None, kind: str) -> Mapping[str, Any]:
    """All values, or the one that was asked for. Raises AnswerError (404)."""
    if name is None:
        return values
    if name not in values:
        raise AnswerError(404, f"there is no {kind} `{name}`", did_you_mean(name, values))
    return {name: values[name]}


def _operators(asked: Asked) -> Any:
    return {"operators": list(_figured(asked, asked.plan.answer["operators"]))}


def _figured(asked: Asked, operators: Any) -> Iterator[Any]:
    """Logical operators with the figures of their partitions."""
    watch = asked.watch
    rows, totals = watch.operators(), watch.operator_totals()
    latencies = {row["operator"]: row["averageMs"] for row in watch.latency()["logical"]}
    metrics = by_operator(watch.own_metrics()["metrics"])
    for one in operators:
        name = one["name"]
        yield apex.logical_operator(
            name, one["class"], rows, latencies, metrics.get(name, {}), totals.get(name)
        )


def _changes(asked: Asked) -> Any:
    return {"changes": [{**row, "result": ""} for row in asked.watch.changes()]}


def _sinks(asked: Asked) -> Any:
    """The operators that have published, or that nothing reads from; where they write is not in a log."""
    watch, plan = asked.watch, asked.plan.answer
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


def _checkpoints(asked: Asked) -> Any:
    folder = asked.watch.info().get("checkpoint") or ""
    return {
        "folder": folder,
        "windowsKept": asked.plan.answer["attributes"].get("windows_kept"),
        "windows": [],
        "note": "A log does not say what its checkpoint keeps: `ridgeline checkpoint describe DIR` does.",
    }


def _configuration(asked: Asked) -> Any:
    """The values of the plan; who set them is not in a log."""
    plan = asked.plan.answer

    def rows() -> Iterator[dict[str, Any]]:
        for name, value in plan["attributes"].items():
            yield {"key": f"application.{name}", "operator": "", "value": value}
        for one in plan["operators"]:
            for name, value in {**one["attributes"], **one["properties"]}.items():
                yield {"key": f"operator.{one['name']}.{name}", "operator": one["name"], "value": value}

    values = [{**row, "layer": "", "place": "", "insteadOf": [], "choices": []} for row in rows()]
    return {"known": False, "values": values}


def _refuse(_asked: Asked) -> Any:
    raise needs_running()


_LOGICAL = f"{BASE}/logicalPlan"
_OPERATOR = f"{_LOGICAL}/operators/{{name}}"
_OWN: Mapping[str, Callable[[Asked], Any]] = {
    _LOGICAL: lambda asked: asked.plan.answer,
    f"{_LOGICAL}/attributes": lambda asked: _one_of(
        asked.plan.answer["attributes"], asked.get("attributeName"), "attribute"
    ),
    f"{_LOGICAL}/operators": _operators,
    _OPERATOR: lambda asked: next(_figured(asked, [asked.operator()])),
    f"{_OPERATOR}/ports": lambda asked: {"ports": asked.operator()["ports"]},
    f"{_OPERATOR}/attributes": lambda asked: _one_of(
        asked.operator()["attributes"], asked.get("attributeName"), "attribute"
    ),
    f"{_OPERATOR}/properties": lambda asked: _one_of(
        asked.operator()["properties"], asked.get("propertyName"), "property"
    ),
    f"{BASE}/changes": _changes,
    f"{BASE}/sinks": _sinks,
    f"{BASE}/checkpoints": _checkpoints,
    f"{BASE}/configuration": _configuration,
    f"{BASE}/advice": lambda asked: advice_answer(asked.watch, asked.plan.application),
    f"{BASE}/versions": lambda asked: {"ridgeline": asked.watch.info().get("version") or ""},
    f"{BASE}/keys": _refuse,
    f"{BASE}/debugDump": _refuse,
}
