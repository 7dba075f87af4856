"""The answers of a run that is read from its log: its figures, and the plan that the log keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ridgeline.observe.answers import Answers
from ridgeline.plan.execution import Plan
from ridgeline.service.http.answers import LogicalPlanAnswer, LogicalPlanOperatorAnswer
from ridgeline.service.http.configuration import value_row
from ridgeline.service.http.endpoint import BASE, AnswerError, Call, Endpoint
from ridgeline.service.http.kept import sink_rows
from ridgeline.service.page.live import KeptPlan

_NEEDS = "a run that is read from its log cannot be asked for this"
_HINT = "it needs the running application; `ridgeline ps` lists those that run"


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
    if endpoint.needs_run or handler is None:
        raise needs_running()
    return handler(EndedCall(watch, cast("Plan", _NoPlan()), values, kept=plan))


# Answers that a running application makes of its plan, or of its run ---------------------------------------


def _changes(call: EndedCall) -> Any:
    return {"changes": [{**row, "result": ""} for row in call.watch.changes()]}


def _sinks(call: EndedCall) -> Any:
    """The operators that have published, or that nothing reads from; where they write is not in a log."""
    watch, plan = call.watch, call.kept.answer
    published = {row["operator"] for row in watch.outputs()}
    read = {stream["source"]["operatorName"] for stream in plan["streams"]}
    ends = (
        (one["name"], one["class"], one["attributes"], len(watch.topology.partitions_of(one["name"])))
        for one in plan["operators"]
        if one["name"] not in read or one["name"] in published
    )
    return {"sinks": sink_rows(watch, ends, None)}


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
    values = [value_row(f"application.{name}", value) for name, value in plan["attributes"].items()]
    values += [
        value_row(f"operator.{one['name']}.{name}", value, one["name"])
        for one in plan["operators"]
        for name, value in {**one["attributes"], **one["properties"]}.items()
    ]
    return {"known": False, "values": values}


_OWN: Mapping[str, Callable[[Any], Any]] = {
    f"{BASE}/changes": _changes,
    f"{BASE}/sinks": _sinks,
    f"{BASE}/checkpoints": _checkpoints,
    f"{BASE}/configuration": _configuration,
    f"{BASE}/versions": lambda call: {"ridgeline": call.watch.info().get("version") or ""},
}
