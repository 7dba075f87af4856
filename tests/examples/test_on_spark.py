"""Every example on `local[2]`, for one to three partitions of each operator."""

import pytest

from support.examples.on_spark import EXAMPLES, ROUND_ROBIN, prove

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("name", EXAMPLES)
def test_results_equal_an_independent_computation(spark_context, tmp_path, name, partitions):
    prove(EXAMPLES[name], spark_context, tmp_path, partitions)


@pytest.mark.parametrize("partitions", [2, 3])
@pytest.mark.parametrize("name", ROUND_ROBIN)
def test_dealing_tuples_out_in_turn_changes_nothing(spark_context, tmp_path, name, partitions):
    prove(ROUND_ROBIN[name], spark_context, tmp_path, partitions)
