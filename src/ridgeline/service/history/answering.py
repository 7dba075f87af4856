"""The answers of a run that is read from its log: its figures, and the plan that the log keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ridgeline.observe.answers import Answers
from ridgeline.plan.execution import Plan
from ridgeline.service.http.answers import LogicalPlanAnswer
from ridgeline.service.http.endpoint import BASE, AnswerError, Call, Endpoint
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

    @property
    def publishers(self) -> None:
        """Where results went is not in a log."""
        return

    @property
    def not_begun(self) -> str:
        """Why a question about the run has no answer."""
        return "A log does not say what its checkpoint keeps: `ridgeline checkpoint describe DIR` does."


def answer(endpoint: Endpoint, watch: Answers, plan: KeptPlan, values: Mapping[str, Any]) -> Any:
    """The answer of an endpoint. Raises AnswerError, with 409 for what needs the running application."""
    if endpoint.needs_run or endpoint.handler is None:
        raise needs_running()
    if endpoint.path == f"{BASE}/versions":  # not those of who reads the log
        return {"ridgeline": watch.info().get("version") or ""}
    return endpoint.handler(EndedCall(watch, cast("Plan", _NoPlan()), values, kept=plan))
