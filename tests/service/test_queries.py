"""Queries of an application that runs: inserted, read, ended, refused, abandoned."""

from __future__ import annotations

import pytest

from ridgeline import ChangeError
from ridgeline.operators._sql_engine import QueryError
from ridgeline.plan.edits import RemoveSink
from ridgeline.service.queries import QueryRequest, queries_of, tables_of
from ridgeline.stram.changes import EditPlan
from support.service.living import living
from support.waiting import PATIENCE_SECONDS


@pytest.fixture
def app():
    with living() as app:
        yield app


@pytest.fixture
def stream(app):
    """The name of the stream that the numbers are on."""
    return next(one.name for one in app.run.plan.logical.streams if str(one.source) == "numbers.output")


def names(app):
    return {one.name for one in app.run.plan.logical.operators}


def alive():
    return True


def tables(app, sql, times=0, **options):
    queries = queries_of(app.run)
    name = queries.add(QueryRequest(sql, times=times, **options), "test", PATIENCE_SECONDS)
    return name, tables_of(queries, name, None, times, alive)


def test_a_change_may_take_the_stream_away(app, wait_until):
    streams = {str(one.source): one.name for one in app.run.plan.logical.streams}
    name, found = tables(app, f"select * from {streams['sums.output']}")
    next(found)
    edits = (RemoveSink(streams["sums.output"], f"{name}.first"),)
    asked = app.run.changes.ask(EditPlan(edits), "test")
    assert asked.done.wait(PATIENCE_SECONDS)
    assert asked.state == "APPLIED", asked.reason
    assert name not in names(app)
    with pytest.raises(QueryError):
        list(found)


def test_an_application_that_has_ended_has_no_queries(app, stream):
    app.end_windows()
    with pytest.raises(ChangeError, match="runs no more"):
        tables(app, f"select * from {stream}")
