"""The state of the page at one moment, and the difference between two moments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.service.http import apex
from ridgeline.service.http.bodies import to_json

if TYPE_CHECKING:
    from ridgeline.observe.answers import Answers
    from ridgeline.plan.execution import Plan
    from ridgeline.service.http.answers import LogicalPlanAnswer


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan of which there is only what `/logicalPlan` answers about it."""

    application: str
    answer: LogicalPlanAnswer


class PageState:
    """Makes the state of the page: `plan`, `sentence`, and `overview`, where rows are found by id or name.

    A plan is made once for as long as it does not change.
    """

    def __init__(self, watch: Answers) -> None:
        self._watch = watch
        self._planned: tuple[Plan | KeptPlan | None, object, dict[str, Any]] = (None, None, {})

    def of(self, plan: Plan | KeptPlan) -> dict[str, Any]:
        """The state as of now."""
        overview = self._watch.overview()
        version = overview["info"].get("planVersion")
        if self._planned[0] is not plan or self._planned[1] != version:
            queues = [
                {"name": row["stream"], "from": row["writer"], "to": row["reader"]}
                for row in overview["progress"].get("queues", [])
            ]
            self._planned = plan, version, self._plan(plan, queues)
        latency, progress = overview["latency"], overview["progress"]
        return {
            "plan": self._planned[2],
            "sentence": sentence_of(overview),
            "overview": {
                **overview,
                "operators": _by(overview["operators"], "id"),
                "latency": {
                    **latency,
                    "operators": _by(latency["operators"], "id"),
                    "logical": _by(latency["logical"], "operator"),
                },
                "progress": {
                    **progress,
                    "operators": _by(progress["operators"], "id"),
                    "sources": _by(progress["sources"], "operator"),
                },
            },
        }

    def _plan(self, plan: Plan | KeptPlan, queues: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """The logical plan without values, the physical streams, and the queues between regions."""
        if not isinstance(plan, KeptPlan):
            plan = KeptPlan(plan.logical.application, apex.logical_plan(plan.logical))
        return shown_plan(plan.application, plan.answer, self._watch.streams(), queues)


def shown_plan(
    application: str,
    logical: LogicalPlanAnswer,
    physical: Sequence[Mapping[str, Any]],
    queues: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """A plan as views draw it, without values of properties and attributes; `hash` is of all of it."""
    kept = ("name", "type", "connected")
    shown = {
        "application": application,
        "operators": [
            {
                "name": operator["name"],
                "module": operator["module"],
                "class": operator["class"],
                "ports": [{name: port[name] for name in kept} for port in operator["ports"]],  # type: ignore[literal-required]
            }
            for operator in logical["operators"]
        ],
        "streams": [
            {name: value for name, value in stream.items() if name != "schema"}
            for stream in logical["streams"]
        ],
        "modules": [
            {name: value for name, value in module.items() if name != "properties"}
            for module in logical["modules"]
        ],
        "physical": physical,
        "queues": queues,
    }
    return {**shown, "hash": hashlib.sha256(to_json(shown)).hexdigest()[:16]}


def _by(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {str(row[name]): row for row in rows}


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7396) that makes `after` of `before`; lists are replaced as a whole.

    A member that is null in `after` is removed: to who reads it, both are the same.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2, "d": 4}, "e": None})
    {'a': None, 'b': {'d': 4}}
    """
    patch: dict[str, Any] = dict.fromkeys(name for name in before if name not in after)
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):  # as all answers are: Mapping takes long to ask
            if old is not value and (inner := merge_patch(old, value)):
                patch[name] = inner
        elif value != old or type(value) is not type(old):
            patch[name] = value
    return {name: value for name, value in patch.items() if value is not None or before.get(name) is not None}
