import os
import platform

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other settings"),
    pytest.mark.skipif(any("MALLOC" in name for name in os.environ), reason="the environment says otherwise"),
]


def test_arrays_of_a_batch_take_the_memory_of_the_one_before_in_workers(spark_context):
    def pages(_records):
        import resource

        import numpy as np

        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(50):
            values = np.ones(250_000)
            mask = values > 0
            chosen = values[mask]
            del values, mask, chosen
        yield resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    (found,) = spark_context.parallelize([0], 1).mapPartitions(pages).collect()
    assert found < 3_000  # 1,000 pages are needed, each time; without a threshold they are got each time
