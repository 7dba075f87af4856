"""Applications that run at the same time, each in a process of its own: what disturbs one disturbs all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_STARTING_SECONDS = 120


def side_by_side(
    module: str, jobs: Sequence[Mapping[str, Any]], folder: Path, name: str, seconds: float
) -> list[dict[str, Any]]:
    """Run `python -m MODULE JOB FILE` for each job, as JSON; what each has written, as JSON, to its file.

    `seconds`: how long they take once they have started. Raises RuntimeError if one has failed.
    """
    files = [folder / f"{name}-{number}.json" for number in range(len(jobs))]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(job), str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)},
        )
        for job, file in zip(jobs, files, strict=True)
    ]
    try:
        for job, process in zip(jobs, running, strict=True):
            _, errors = process.communicate(timeout=seconds + _STARTING_SECONDS)
            if process.returncode:
                raise RuntimeError(f"{job}: {errors[-2_000:]}")
    finally:
        for process in running:
            process.terminate()
            process.wait()
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]
