"""What a handle asks for, of an application that runs in this process."""

from __future__ import annotations

import pytest

from ridgeline import ChangeError, StickyPartitioner
from ridgeline.operators._sql_engine import QueryError
from ridgeline.plan.edits import RemoveSink, Repartition, SetProperty
from ridgeline.service.change_client import ChangeClient
from ridgeline.service.queries import Queries, QueryRequest, queries_of, tables_of
from ridgeline.stram.changes import EditPlan
from ridgeline.testing import CollectorSink, NullSink
from support.service.living import Number, Sums, living
from support.waiting import PATIENCE_SECONDS


class LiveClient(ChangeClient):
    def __init__(self, app):
        self.app = app

    def _running(self):
        return self.app.run

    def _alive(self):
        return self.app._thread.is_alive()

    def _failure(self):
        return self.app.failure

    def _rows(self):
        return self.app.run.changes.rows()


@pytest.fixture
def app():
    with living() as app:
        yield app


@pytest.fixture
def handle(app):
    return LiveClient(app)


def operator(app, name):
    return app.run.plan.logical.operator(name)


def test_an_operator_is_repartitioned(app, handle):
    handle.repartition("sums", 3)
    handle.repartition("sums", partitioner=StickyPartitioner("input"))
    assert len(operator(app, "sums").divided) == 3
    with pytest.raises(ChangeError, match="`sums` would stay as it is"):
        handle.repartition("sums")


def test_a_plan_is_changed_as_a_whole(app, handle):
    with handle.plan_change(note="a look") as plan:
        again = plan.add_operator("again", Sums(), partitions=2)
        seen = plan.add_operator("seen", CollectorSink(Number))
        plan.add_sink("numbers", again.input)
        plan.add_stream("seen", again.output, seen.input)
        plan.set_property("again", "factor", 2)
        plan.rename_operator("sink", "old")
    assert operator(app, "again").operator.factor == 2
    with handle.plan_change() as plan:
        plan.remove_sink("numbers", "again.input")
        plan.remove_stream("seen")
        for name in ("again", "seen"):
            plan.remove_operator(name)
        plan.replace_operator("old", NullSink())
    assert [one.name for one in app.run.plan.logical.operators] == ["numbers", "sums", "old"]


def test_a_port_is_one_of_the_change_or_a_text(handle):
    with handle.plan_change() as plan:
        with pytest.raises(
            ChangeError, match="the port `input` is of a `Sums` that this change does not add"
        ):
            plan.add_sink("numbers", Sums().input)
        with pytest.raises(ChangeError, match="is no port; give one of an operator"):
            plan.add_sink("numbers", Sums())
        with pytest.raises(ChangeError, match="the stream `more` has no sink"):
            plan.add_stream("more", "sums.odd")


def test_what_would_be_refused_is_refused_in_a_dry_run(app, handle):
    handle.repartition("sums", 3)
    before = app.run.plan
    with pytest.raises(ChangeError, match="state `count` of operator `numbers` cannot be moved") as dry:
        handle.dry_run(Repartition("numbers", 2))
    with pytest.raises(ChangeError) as made:
        handle.repartition("numbers", 2)
    assert str(dry.value) in str(made.value)
    assert "sums: 3 -> 5 partitions" in str(handle.dry_run(Repartition("sums", 5)))
    assert app.run.plan is before


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([SetProperty("sums", "factor", "x")], "`sums.factor`"),
        ([RemoveSink("sums", "sink.input")], "`sum"),
        ([{"do": "repartition"}], "`repartition` needs the field `operator`"),
        ([], "the change has no edits"),
    ],
)
def test_a_refusal_is_raised_with_its_reason(app, handle, edits, reason):
    before = app.run.plan
    with pytest.raises(ChangeError, match=reason):
        handle.change(edits)
    with pytest.raises(TypeError, match="tiemout"):
        handle.set_property("sums", "factor", 2, tiemout=1)  # type: ignore[call-arg]
    assert app.run.plan is before


def test_windows_stop_and_go_on(app, handle):
    handle.pause("a break")
    with pytest.raises(TimeoutError, match=r"`set `sums.factor` to 2` still waits.* after 0.5 s"):
        handle.set_property("sums", "factor", 2, timeout=0.5)
    handle.resume()
    assert handle.change(SetProperty("sums", "factor", 4)) >= 0
    assert [row["state"] for row in handle.changes().to_pylist()] == ["APPLIED"] * 4


def test_a_killed_application_takes_no_change(app, handle):
    handle.kill("enough")
    app._thread.join()
    with pytest.raises(ChangeError, match=r"is not made, since `numbers` has failed: .* killed by Python"):
        handle.set_property("sums", "factor", 2)
    app.failure = None


# Queries of an application that runs: inserted, read, ended, refused, abandoned -----------------------------


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


def test_a_query_that_nobody_reads_is_removed(app, stream, wait_until):
    queries = Queries(app.run, lease=0.2)
    before = names(app)
    name = queries.add(QueryRequest(f"select * from {stream}"), "test", PATIENCE_SECONDS)
    wait_until(lambda: names(app) == before, "the query is removed")
    found, why = queries.read(name, 10**9, 0)
    assert not found
    assert "nobody has read it" in why


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
