"""Run and check all examples on `local-cluster[2,1,1024]`: `python on_local_cluster.py EMPTY_FOLDER`.

Executors are processes of their own, in folders of their own. They find Ridgeline; the examples travel with
the plans.
"""

import sys
import time
import traceback
from pathlib import Path


def main(folder):
    """Prove each example with two partitions of each operator, one with three, two round robin.

    Returns the number of failures.
    """
    from ridgeline.engine.spark.session import start_context
    from support.examples.on_spark import EXAMPLES, ROUND_ROBIN, prove

    settings = {"spark.local.dir": f"{folder}/spark", "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    began = time.monotonic()
    context = start_context(
        "ridgeline-examples", "local-cluster[2,1,1024]", settings, streaming=True, local_checkpoint=True
    )
    print(f"started in {time.monotonic() - began:.1f} s", flush=True)
    failures = 0
    try:
        for name, example, partitions in [
            *((name, example, 2) for name, example in EXAMPLES.items()),
            ("payments", EXAMPLES["payments"], 3),
            *((f"{name} round robin", example, 2) for name, example in ROUND_ROBIN.items()),
        ]:
            began, result = time.monotonic(), "right"
            try:
                prove(example, context, folder / f"{name}-{partitions}", partitions)
            except Exception:  # noqa: BLE001  the others are result of too
                traceback.print_exc(file=sys.stdout)
                failures, result = failures + 1, "WRONG"
            print(
                f"{name} with {partitions} partitions: {result} ({time.monotonic() - began:.1f} s)",
                flush=True,
            )
    finally:
        context.stop()
    return failures


if __name__ == "__main__":
    tests = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(tests), str(tests.parent / "examples")]
    sys.exit(min(1, main(Path(sys.argv[1]).resolve())))
