"""The process of one contestant in one round: `python -m benchmarks.contestant ARGUMENTS`."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

import numpy as np

from benchmarks.catalog import load
from benchmarks.frame import Round


def main() -> None:
    """Run it; write its figures, or why there are none, to the file that the arguments name."""
    job = json.loads(sys.argv[1])
    result: dict[str, object]
    try:
        catalog = load([job["module"]])
        for fault in catalog.faults.values():
            raise ImportError(fault)  # noqa: TRY301  reported as what a contestant raises
        benchmark = catalog.benchmarks[job["benchmark"]]
        of_round = Round(Path(job["data"]), Path(job["folder"]), job["number"], job["quick"])
        if job["contestant"] is None:
            if benchmark.prepare is not None:
                benchmark.prepare(of_round)
            result = {"figures": {}}
        else:
            figures = benchmark.contestants[job["contestant"]](of_round)
            result = {"figures": {figure: _numbers(figure, samples) for figure, samples in figures.items()}}
    except Exception as error:  # noqa: BLE001  the others go on
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: {error}"}
    Path(job["result"]).write_text(json.dumps(result), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # what it leaves running is ended by who started it


def _numbers(figure: str, samples: object) -> list[float]:
    numbers = np.asarray(samples, dtype=float).reshape(-1)
    if not numbers.size or not np.isfinite(numbers).all():
        raise ValueError(f"figure `{figure}` needs finite samples, one or more; got {samples!r:.200}")
    return numbers.tolist()


if __name__ == "__main__":
    main()
