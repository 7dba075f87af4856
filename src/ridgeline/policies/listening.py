"""Listeners and policies as users write them: classes with annotated fields as properties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.policies.answers import Answer, Decision


class StatsListener(BaseModel, ABC):
    """Sees the figures of one operator whenever windows are committed, and answers with changes of it.

    Given as `add_operator(..., stats_listeners=[MoreWhenLate()])`. An operator that is a listener itself
    defines `observe` as well. It runs on the driver, beside the windows, in a thread of deciders. Annotated
    fields are its properties; what it remembers goes into fields that begin with `_`. It is lost when the
    driver ends.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    @abstractmethod
    def observe(self, figures: OperatorFigures) -> Answer | Iterable[Answer] | None:
        """Answer with what is to change; None: nothing. What it raises is logged, and it is asked again.

        It is not asked while a change of its own waits.
        """


class Policy(BaseModel, ABC):
    """Sees the figures of the whole application whenever windows are committed, and decides on changes.

    Given as `app.add_policy(...)`. Properties and memory as of `StatsListener`.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    @abstractmethod
    def decide(self, figures: ApplicationFigures) -> Decision | Iterable[Decision] | None:
        """Decide on changes; None: all stays. What it raises is logged, and it is asked again.

        It is not asked while a change of its own waits, or while it is not seen yet what came of one.
        """

    def told(self, decision: Decision, state: str) -> None:
        """Hear what has become of a decision: `APPLIED`, `REFUSED`, `HELPED` or `MISSED`."""
