"""`plan` says where a quick reader of a stream waits for a heavy one, and is silent elsewhere."""

from typing import Any

import pytest

from ridgeline.api import Application, InputPort, Operator
from ridgeline.plan import find_notes, plan_application
from support.plan.parts import Filter, Source, Store

TIED = (
    "readers of stream `read` are committed together: in each window `alerts` waits with its results for "
    "`heavy`; `ridgeline critical-path` says how long"
)


class Both(Operator):
    left = InputPort(Any)
    right = InputPort(Any)

    @left.process
    def of_left(self, one): ...

    @right.process
    def of_right(self, one): ...


def tied(app):
    plan = plan_application(app)
    return [(n.where, n.text) for n in find_notes(plan.logical, plan.physical) if "together" in n.text]


def branches(heavy=1, quick=1, *, upstream=1):
    """`quick` into `alerts` and `heavy` into `table`, which read the same stream."""
    app = Application("test")
    source = app.add_operator("source", Source(), partitions=upstream)
    one = app.add_operator("quick", Filter(), partitions=quick)
    other = app.add_operator("heavy", Filter(), partitions=heavy)
    table = app.add_operator("table", Store())
    app.add_stream("read", source.payments, one.data, other.data)
    app.add_stream("worked", other.passed, table.input)
    app.add_stream("found", one.passed, app.add_operator("alerts", Store()).input)
    return app


def test_a_quick_branch_that_waits_for_a_partitioned_one_is_noted():
    assert tied(branches(heavy=3)) == [("source", TIED)]


@pytest.mark.parametrize("upstream", [1, 2])
def test_nothing_is_noted_where_nobody_has_said_that_one_branch_is_heavier(upstream):
    assert tied(branches(upstream=upstream)) == []
    assert tied(branches(heavy=2, quick=2, upstream=upstream)) == []


def test_nothing_is_noted_of_a_row_of_operators():
    app = Application("test")
    source = app.add_operator("source", Source())
    heavy = app.add_operator("heavy", Filter(), partitions=3)
    app.add_stream("read", source.payments, heavy.data)
    app.add_stream("kept", heavy.passed, app.add_operator("store", Store()).input)
    assert tied(app) == []


def test_the_heavy_operator_may_be_further_down():
    app = Application("test")
    source = app.add_operator("source", Source())
    first = app.add_operator("first", Filter())
    heavy = app.add_operator("heavy", Filter(), partitions=2)
    app.add_stream("read", source.payments, first.data, app.add_operator("alerts", Store()).input)
    app.add_stream("kept", first.passed, heavy.data)
    app.add_stream("worked", heavy.passed, app.add_operator("table", Store()).input)
    assert tied(app) == [("source", TIED)]


def test_nothing_is_noted_where_branches_come_together_again():
    """All results need both."""
    app = Application("test")
    source = app.add_operator("source", Source())
    quick = app.add_operator("quick", Filter())
    heavy = app.add_operator("heavy", Filter(), partitions=2)
    both = app.add_operator("both", Both())
    app.add_stream("read", source.payments, quick.data, heavy.data)
    app.add_stream("found", quick.passed, both.left)
    app.add_stream("worked", heavy.passed, both.right)
    assert tied(app) == []
