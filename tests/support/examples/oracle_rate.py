"""What the rate example must give, computed by pyarrow. Knows nothing of Ridgeline."""

import pyarrow as pa
import pyarrow.compute as pc


def sums(windows, rows):
    """The sum of all odd numbers so far, for each window; the source counts from 0."""
    numbers = pa.array(range(windows * rows), pa.int64())
    odd = pc.equal(pc.bit_wise_and(numbers, 1), 1)
    so_far = pc.cumulative_sum(pc.if_else(odd, numbers, 0))
    return [so_far[(window + 1) * rows - 1].as_py() for window in range(windows)]
