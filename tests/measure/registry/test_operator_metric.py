"""The table of operators' metrics: every row is read in one way, and shown wherever it says."""

import ast
import inspect

from ridgeline.cli.views import lists
from ridgeline.measure import tables
from ridgeline.measure.answers import operators
from ridgeline.measure.metrics import METRICS
from ridgeline.measure.registry.operator_metric import arranged
from ridgeline.measure.registry.operators import LATENCY_METRICS, OPERATOR_METRICS
from ridgeline.service.http.answers import AGGREGATED


def test_items_follow_those_that_they_name() -> None:
    entries = [("c", "b", 3), ("a", "", 1), ("d", "", 4), ("b", "a", 2)]
    assert arranged(entries) == [1, 2, 3, 4]


def test_each_is_read_in_one_way_and_shown_where_it_says() -> None:
    for row in OPERATOR_METRICS:
        assert [row.last, row.count, row.read].count(None) == 2
        assert row.name in operators.OperatorAnswer.__annotations__
        if row.metric is not None:
            assert row.metric in METRICS
        if row.aggregate is not None:
            assert row.name in {name for name, _, _ in AGGREGATED}
        if row.column is not None:
            assert (row.name, row.column) in lists._OPERATOR_COLUMNS
        if row.graph is not None:
            assert row.metric is not None, "a line of the dashboard needs a metric"


def test_arrow_tables_of_latencies_have_a_column_for_each_row_that_is_in_their_answer() -> None:
    assert {row.name for row in LATENCY_METRICS} <= {field for _, field, _ in tables._LATENCY}


def test_type_checkers_know_the_types_of_rows_that_are_read_by_name() -> None:
    types = {row.name: row.type for row in OPERATOR_METRICS}
    (declared,) = (
        node
        for node in ast.walk(ast.parse(inspect.getsource(operators)))
        if isinstance(node, ast.ClassDef) and node.name == "OperatorMetricsAnswer"
    )
    for field in declared.body:
        if isinstance(field, ast.AnnAssign):
            assert eval(ast.unparse(field.annotation)) == types[field.target.id]
