"""Run an application on the shared Spark session and look at what came out."""

import contextlib

from ridgeline.engine.launch import Options, launch
from ridgeline.engine.run import Listener
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink


class SparkRun:
    """What a run told its listener: committed windows, retries, and what collecting sinks got, window by window."""

    def __init__(self, plan):
        self.plan = plan
        self.windows = []
        self.retries = []
        self.outcome = None
        self._collectors = {
            operator.name: (
                operator.operator.publisher(),
                [physical.id for physical in plan.physical.operators if physical.name == operator.name],
            )
            for operator in plan.logical.operators
            if isinstance(operator.operator, CollectorSink)
        }

    @property
    def ids(self):
        """The ids of the windows committed in this run."""
        return [summary.window_id for summary in self.windows]

    def collected(self, operator, window=None):
        """As `LocalRun.collected`."""
        return self._collectors[operator][0].tuples(window)

    def reports(self, operator, window):
        """The reports of a logical operator's partitions in a window."""
        ids = {physical.id for physical in self.plan.physical.operators if physical.name == operator and not physical.unifier}
        summary = next(summary for summary in self.windows if summary.window_id == window)
        return [report for container in summary.reports for report in container.operators if report.id in ids]

    def _committed(self, summary):
        self.windows.append(summary)
        handed = {report.id: report.handed_over for container in summary.reports for report in container.operators}
        for collector, ids in self._collectors.values():
            collector.stage(summary.window_id, [value for identity in ids for value in handed.get(identity, [])])
            collector.publish(summary.window_id)


def run_on_spark(app, context, checkpoint, *, windows=None, each=None, stop=None, properties=None, attributes=None, expect=None):
    """Run an application; `each(run, summary)` hears of every committed window, `expect` names the error that must end it.

    Returns the run; with `expect`, the run and the error.
    """
    plan = plan_application(app, properties or {}, attributes or {})
    run = SparkRun(plan)

    def committed(summary):
        run._committed(summary)
        if each:
            each(run, summary)

    listener = Listener(committed, lambda *retry: run.retries.append(retry))
    options = Options(master="local[2]", checkpoint=str(checkpoint), windows=windows)
    with _raises(expect) as caught:
        run.outcome = launch(plan, options, context=context, listener=listener, stop=stop)
    return (run, caught.value) if expect else run


@contextlib.contextmanager
def _raises(expect):
    import pytest

    if expect is None:
        yield
    else:
        with pytest.raises(expect) as caught:
            yield caught
