"""Inputs whose properties say which column has the times of records, and how late they may be."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ridgeline.api.operator import Operator
from ridgeline.api.support.duration import Duration, parse_duration


class EventTime(Operator):
    """A mixin of inputs with the properties `timestamp`, `lateness` and `idle_after`."""

    gives_record_times: ClassVar[bool] = False
    """Whether records have times without `timestamp`."""

    timestamp: str | None = Field(default=None, kw_only=True)
    lateness: Duration | None = Field(default=None, kw_only=True)
    idle_after: Duration | None = Field(default=None, kw_only=True)

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
        return None if self.idle_after is None else parse_duration(self.idle_after)
