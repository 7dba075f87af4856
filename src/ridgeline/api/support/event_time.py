"""Inputs whose properties say which column has the times of records, and how late they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ridgeline.api.operator import Operator
from ridgeline.api.support.duration import Duration, parse_duration


class EventTime(Operator):
    """A mixin of inputs with the properties `timestamp`, `lateness` and, where it has one, `idle_after`."""

    gives_record_times: ClassVar[bool] = False
    """Whether records have times without `timestamp`."""

    if TYPE_CHECKING:  # each input declares them at a place of its own

        @property
        def timestamp(self) -> str | None:
            """The column."""

        @property
        def lateness(self) -> Duration | None:
            """How much older a record may be than the newest before it."""

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a `lateness` of records without times."""
        faults = super().property_faults()
        if self.lateness is not None and self.timestamp is None and not self.gives_record_times:
            faults.append(
                ("lateness", self.lateness, "needs `timestamp`, the column with the records' times")
            )
        return faults

    def timestamp_of(self, port: str) -> str | None:
        """The column that `timestamp` names."""
        return self.timestamp

    def lateness_of(self, port: str) -> float | None:
        """The `lateness` in seconds."""
        return None if self.lateness is None else parse_duration(self.lateness)

    def idle_seconds(self) -> float | None:
        """`idle_after` in seconds."""
        idle: Duration | None = getattr(self, "idle_after", None)
        return None if idle is None else parse_duration(idle)
