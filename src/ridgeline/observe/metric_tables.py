"""The metrics of an application as Arrow tables, for notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from ridgeline.measure import tables
from ridgeline.measure.answers.changes import DecisionAnswer, PromiseAnswer
from ridgeline.measure.answers.operators import MetricAnswer, MetricWindowAnswer, RecordAgeAnswer
from ridgeline.measure.answers.windows import WindowSummaryAnswer
from ridgeline.observe.watch import Watch


class MetricTables(ABC):
    """The metrics of an application that runs or ran, as `pyarrow.Table` (`.to_pandas()` for pandas).

    `watch` has the same as plain data, and more: slack and blame chain, operators, containers.
    """

    @property
    @abstractmethod
    def watch(self) -> Watch:
        """The metrics as plain data."""

    def latency(self, window_id: int | None = None) -> pa.Table:
        """Latency of every physical operator in a window (default: the last), in milliseconds.

        Raises KeyError if it is not kept.
        """
        return tables.latency_table(self.watch.latency(window_id))

    def critical_path(self, window_id: int | None = None) -> pa.Table:
        """The critical path of a window (default: the last), step by step.

        Raises KeyError if the window is not kept.
        """
        return tables.critical_path_table(self.watch.critical_path(window_id))

    def decisions(self) -> pa.Table:
        """The last 1,000 decisions of policies and listeners: why, and what came of each."""
        return tables.table_of(DecisionAnswer, self.watch.decisions())

    def promises(self) -> pa.Table:
        """The promises of the application: kept or broken, since when, and how long they were broken."""
        return tables.table_of(PromiseAnswer, self.watch.promises())

    def record_age(self, operator: str | None = None) -> pa.Table:
        """The record ages of the last minute, of all operators or of one.

        Raises KeyError for an operator that does not exist.
        """
        return tables.table_of(RecordAgeAnswer, self.watch.record_age(operator)["operators"])

    def progress(self) -> pa.Table:
        """The progress of the window that runs, by operator, and the backlog of sources."""
        return tables.progress_table(self.watch.progress())

    def metrics(self, operator: str | None = None) -> pa.Table:
        """The metrics that operators declare, a row each, as of their last windows.

        Raises KeyError for an operator that declares none.
        """
        return tables.table_of(MetricAnswer, self.watch.own_metrics(operator)["metrics"])

    def metric_history(self, operator: str, metric: str) -> pa.Table:
        """A metric that an operator declares, over time: a row a window, the newest last.

        Raises KeyError if there is no such metric.
        """
        return tables.table_of(MetricWindowAnswer, self.watch.metric_history(operator, metric)["windows"])

    def history(
        self, operator: str | None = None, seconds: float = 900, step: float | None = None
    ) -> pa.Table:
        """The last hours of the application or of an operator: a row a step, the newest last.

        Args:
            operator: Its logical name; None: all windows, with the record ages of outputs.
            seconds: How far back. Steps of a second are kept for 15 minutes, of ten seconds for 2 hours, of
                a minute for 24 hours. Of many operators they are longer.
            step: The least seconds of a step; None: as short as steps are kept so far back.

        Raises:
            KeyError: For an operator that does not exist.
        """
        begin = -seconds if seconds > 0 else None
        if operator is None:
            return tables.history_table(self.watch.application_history(begin, step))
        return tables.history_table(self.watch.operator_history(operator, begin, step))

    def windows(self, limit: int | None = None) -> pa.Table:
        """The last windows, the newest last."""
        return tables.table_of(WindowSummaryAnswer, self.watch.windows(limit))
