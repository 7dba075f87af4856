"""Spark's accounts as events, with a query made of accounts."""

import json

import pytest

from ridgeline.engine.driver.spark_source.offsets import QueryProgress
from ridgeline.measure.events import SourceProgress, SparkTrigger
from ridgeline.testing import SteppingClock

SECOND = "2026-11-21T09:56:{:02d}.250Z"
START = 1795254960.25  # 09:56:00.250 of that day


def account(window, *, rows=10, batch=True, sources=1):
    phases = {"latestOffset": 2, "triggerExecution": 40, **({"addBatch": 30} if batch else {})}
    source = {
        "description": "x",
        "startOffset": window * rows,
        "endOffset": (window + 1) * rows,
        "latestOffset": 100,
        "numInputRows": rows,
    }
    return {
        "batchId": window,
        "timestamp": SECOND.format(window),
        "durationMs": phases,
        "sources": [source] * sources,
    }


class Query:
    """As much of a StreamingQuery as is asked for; `reads` counts the accounts that were read."""

    isActive = True  # noqa: N815  Spark's

    def __init__(self, *accounts):
        self.accounts = list(accounts)
        self.reads = 0

    @property
    def _jsq(self):
        return self

    def recentProgress(self):  # noqa: N802  Spark's
        query = self

        class Account:
            def __init__(self, account):
                self.account = account

            def json(self):
                query.reads += 1
                return json.dumps(self.account)

        return [Account(account) for account in self.accounts]


@pytest.fixture
def reported():
    return []


@pytest.fixture
def progress(reported):
    return QueryProgress(reported.append, SteppingClock(), [7])


def windows(reported):
    return [event.window_id for event in reported if isinstance(event, SparkTrigger)]


def test_a_window_is_reported_once(progress, reported):
    query = Query(account(0))
    progress.committed(0, 0, 1)
    assert progress.read(query)
    assert progress.read(query)

    trigger, source = reported
    at = SteppingClock().wall()
    assert trigger == SparkTrigger(
        at, 0, START, {"latestOffset": 0.002, "triggerExecution": 0.04, "addBatch": 0.03}
    )
    assert source == SourceProgress(at, 0, 7, 10.0, 90.0, whole=True)


def test_windows_come_in_order_and_old_accounts_are_not_read_again(progress, reported):
    query = Query(*(account(window) for window in range(10)))
    for window in range(10):
        progress.committed(window, window, 1)
    progress.read(query)
    query.reads = 0
    query.accounts += [account(10), account(11)]
    progress.committed(10, 10, 1)
    progress.committed(11, 11, 1)
    progress.read(query)

    assert windows(reported) == list(range(12))
    assert query.reads == 2
    assert [event.consumed for event in reported if isinstance(event, SourceProgress)] == [
        10.0 * (window + 1) for window in range(12)
    ]


def test_accounts_of_triggers_without_a_batch_and_of_windows_of_an_earlier_run_are_passed_over(
    progress, reported
):
    progress.committed(3, 3, 0)
    progress.committed(4, 4, 1)
    assert progress.read(Query(account(3), account(4), account(5, batch=False), account(5, batch=False)))
    assert windows(reported) == [4]


def test_records_of_a_window_that_two_jobs_have_read_count_once(progress, reported):
    for window, jobs in enumerate([1, 2]):
        progress.committed(window, window, jobs)
    second = account(1)
    second["sources"][0]["numInputRows"] = 20
    progress.read(Query(account(0), second))
    assert [event.consumed for event in reported if isinstance(event, SourceProgress)] == [10.0, 20.0]


def test_sources_that_are_not_the_operators_are_not_guessed(progress, reported):
    progress.committed(0, 0, 1)
    assert progress.read(Query(account(0, sources=2)))
    assert [type(event) for event in reported] == [SparkTrigger]


def test_windows_whose_accounts_spark_has_dropped_are_given_up(progress, reported):
    for window in range(4):
        progress.committed(window, window, 1)
    assert progress.read(Query(account(2), account(3)))
    assert windows(reported) == [2, 3]


def test_the_last_window_is_waited_for_but_not_for_ever(progress, reported):
    class Late(Query):
        def recentProgress(self):  # noqa: N802  Spark's
            self.asked = getattr(self, "asked", 0) + 1
            return super().recentProgress() if self.asked > 5 else []

    progress.committed(0, 0, 1)
    progress.finish(Late(account(0)))
    assert windows(reported) == [0]

    progress.committed(1, 1, 1)
    progress.finish(Query(account(0)))
    assert windows(reported) == [0]


@pytest.mark.parametrize(
    "broken",
    [
        [],
        {},
        {"batchId": 0},
        {"batchId": 0, "durationMs": {"addBatch": 1}},
        {"batchId": 0, "durationMs": None},
    ],
)
def test_accounts_in_another_form_cost_the_figures_alone(progress, reported, broken):
    progress.committed(0, 0, 1)
    progress.finish(Query(broken))
    assert reported == []


def test_a_query_that_is_gone(progress):
    class Gone(Query):
        isActive = False  # noqa: N815  Spark's

        def recentProgress(self):  # noqa: N802  Spark's
            raise RuntimeError

    progress.committed(0, 0, 1)
    progress.finish(Gone())
