"""Window reports as the events that measurement folds over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ridgeline.measure.events import ContainerWindow, OperatorWindow, RunEvent, SourceProgress
from ridgeline.plan.protocol import OperatorReport, WindowReport


def report_events(reports: Sequence[WindowReport], at: float) -> Iterator[RunEvent]:
    """What the containers reported of the attempt that counts, container by container; `at` is STRAM's wall clock."""
    for report in sorted(reports, key=lambda report: report.container):
        yield ContainerWindow(
            at=at,
            window_id=report.window_id,
            attempt=report.attempt,
            container=report.container,
            host=report.host,
            pid=report.pid,
            task=report.tag,
            task_began=report.task_began,
            began=report.began,
            restored=report.restored,
            ran=report.ran,
            written=report.written,
            received=report.received,
            bytes_out=report.bytes_out,
            sent=report.sent,
            worker_began=report.worker_began,
            daemon_began=report.daemon_began,
        )
        for operator in report.operators:
            yield _operator_window(report, operator, at)
            if operator.progress is not None:
                consumed, remaining = operator.progress
                yield SourceProgress(
                    at, report.window_id, operator.id, consumed, remaining, unit=operator.progress_unit
                )


def _operator_window(report: WindowReport, operator: OperatorReport, at: float) -> OperatorWindow:
    return OperatorWindow(
        at=at,
        window_id=report.window_id,
        attempt=report.attempt,
        operator=operator.id,
        container=report.container,
        host=report.host,
        began=operator.began,
        ended=operator.ended,
        compute_seconds=operator.compute_seconds,
        wait_seconds=max(0.0, operator.began - report.restored),
        transfer_seconds=max(0.0, operator.ended - operator.began - operator.compute_seconds),
        tuples_in=operator.tuples_in,
        tuples_out=operator.tuples_out,
        errors=operator.errors,
        queue=operator.queue,
        state_bytes=operator.state_bytes,
        finished=operator.finished,
        dropped=str(operator.dropped) if operator.dropped else "",
        error_tuples=tuple(operator.error_tuples),
        ages=tuple(operator.ages),
        encode_seconds=operator.encode_seconds,
        state_seconds=operator.state_seconds,
        end_seconds=operator.end_seconds,
    )
