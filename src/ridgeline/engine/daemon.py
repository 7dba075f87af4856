"""The worker daemon (`spark.python.daemon.module`): imports before forking, a frozen heap, no full collection after each task.

Stock `pyspark.daemon` collects all garbage after every task, which with pyarrow and numpy loaded takes about 20 ms that the next task waits
for. Python's own generational collection stays on; it looks at new objects every 10,000, not every 700, since a window's tuples are objects
too: that is a tenth of an operator's time for a tuple.
"""

import gc
import importlib
import os
from collections.abc import Callable
from typing import Any

import pyspark.daemon
import pyspark.worker

import ridgeline.engine.stage  # noqa: F401


class NoFullCollection:
    """Stands in for `gc` inside of pyspark.daemon."""

    def __getattr__(self, name: str) -> object:
        return getattr(gc, name)

    @staticmethod
    def collect() -> int:
        """Nothing collected."""
        return 0


def quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker's loop that ends without a word when Spark has closed its connection: stock pyspark prints a traceback of the last flush."""

    def serve(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            os._exit(1)

    return serve


def main() -> None:
    """Serve forks until Spark closes the pipe."""
    for name in filter(None, os.environ.get("RIDGELINE_PRELOAD", "").split(",")):
        importlib.import_module(name)
    daemon: Any = pyspark.daemon
    daemon.gc = NoFullCollection()
    daemon.worker = quietly(daemon.worker)
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
