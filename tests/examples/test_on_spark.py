"""Every example on `local[2]`, for one to three partitions of each operator."""

import pytest

from support.examples.on_spark import EXAMPLES, ROUND_ROBIN, prove

pytestmark = pytest.mark.spark
LONG = {"flights", "yahoo_finance"}
ONCE = {"quotes_module": 3}
"""Examples that one number of partitions is enough for."""


def cases(names, *partitions):
    """Each example with each number of partitions; all but two of the long ones are slow."""
    return [
        pytest.param(name, count, marks=[pytest.mark.slow] if name in LONG and count != 2 else [])
        for name in names
        for count in partitions
        if ONCE.get(name, count) == count
    ]


@pytest.mark.guide("002", "Running A Test Application")
@pytest.mark.guide("002", "Demos")
@pytest.mark.guide("004", "Sample Code")
@pytest.mark.parametrize(("name", "partitions"), cases(EXAMPLES, 1, 2, 3))
def test_results_equal_an_independent_computation(spark_context, tmp_path, name, partitions):
    prove(EXAMPLES[name], spark_context, tmp_path, partitions)


@pytest.mark.guide("002", "Sticky Partition vs Round Robin")
@pytest.mark.parametrize(("name", "partitions"), cases(ROUND_ROBIN, 2, 3))
def test_dealing_tuples_out_in_turn_changes_nothing(spark_context, tmp_path, name, partitions):
    prove(ROUND_ROBIN[name], spark_context, tmp_path, partitions)
