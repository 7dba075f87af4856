import os

import pytest

pytestmark = pytest.mark.spark


def test_workers_of_spark_have_seeds_of_their_own(spark_context):
    def seeds(_index, _records):
        import numpy as np
        from pyspark import BarrierTaskContext

        BarrierTaskContext.get().barrier()  # two processes at the same time
        yield os.getpid(), tuple(np.random.get_state()[1])  # noqa: NPY002  it is what is shared

    found = spark_context.parallelize(range(2), 2).barrier().mapPartitionsWithIndex(seeds).collect()
    assert len({pid for pid, _ in found}) == 2
    assert len({seed for _, seed in found}) == 2
