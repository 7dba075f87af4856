"""How long a reader of the sink sees nothing when a keyed operator gets another partition.

2,000 numbers a second, running sums of 1,000 keys, from 2 partitions to 3 (Flink by REST on its own cluster).
Ours: `handle.repartition`. Restart: the command is ended by Ctrl-C and started on its checkpoint with other
partitions. Flink: a savepoint and a new job; and its adaptive scheduler, which begins again from the last
checkpoint (what was printed since is printed again).
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.frame import Benchmark, Figures, Goal, Round
from benchmarks.launches import ridgeline_run

GAP = "gap seconds"
USUAL = "usual gap seconds"
PER_SECOND, KEYS = 2_000, 1_000
TIMES = 5
_BEFORE_SECONDS, _AFTER_SECONDS = 0.05, 0.5
_PATIENCE_SECONDS = 60.0
_TWO = {"parallelism.default": 2}


def longest(times: Sequence[float], begin: float, end: float) -> float:
    """The longest time from one sight to the next, around what happened from `begin` to `end`."""
    near = [one for one in times if begin - _BEFORE_SECONDS <= one <= end + _AFTER_SECONDS]
    return max(after - before for before, after in pairwise(near))


def _seen(path: Path) -> list[float]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [int(line.split()[0]) / 1e9 for line in lines]


def _usual(times: Sequence[float]) -> float:
    gaps = [after - before for before, after in pairwise(times)]
    return statistics.quantiles(gaps, n=100)[98]


def ours(of_round: Round) -> Figures:
    from benchmarks.apps.steady_sums import application

    path = of_round.folder / "seen.txt"
    app = application(str(path))
    gaps: dict[str, list[float]] = {}
    spans = []
    with app.start("local[2]", checkpoint=str(of_round.folder / "checkpoint"), quiet=True) as handle:
        _wait_for(path, 300)
        usual = _usual(_seen(path)[100:])
        for number in range(2 if of_round.quick else TIMES):
            for kind, edits in _changes(3 - number % 2, str(of_round.folder / "added.txt")).items():
                begin = time.time()
                handle.change(*edits)
                end = time.time()
                time.sleep(2 * _AFTER_SECONDS)
                gaps.setdefault(kind, []).append(longest(_seen(path), begin, end))
                if kind == GAP:
                    spans.append(end - begin)
    of_round.note(f"repartition, from asked for to committed: {statistics.median(spans):.3f} s at the median")
    return {**gaps, USUAL: [usual]}


def _changes(partitions: int, path: str) -> dict[str, Sequence[dict[str, object]]]:
    """Each kind of change, by the figure of its gap."""
    added = {"class": "benchmarks.apps.steady_sums.Seen", "properties": {"path": path}}
    return {
        GAP: [{"do": "repartition", "operator": "sums", "partitions": partitions}],
        "property gap seconds": [
            {"do": "set-property", "operator": "sums", "property": "offset", "value": partitions}
        ],
        "added gap seconds": [
            {"do": "add-operator", "name": "added", "spec": added},
            {"do": "add-sink", "stream": "sums", "sink": "added.input"},
        ],
        "removed gap seconds": [{"do": "remove-operator", "name": "added"}],
    }


def _wait_for(path: Path, lines: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while len(_seen(path)) < lines:
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"`{path.name}` has {len(_seen(path))} lines after a minute; {lines} were to come"
            )
        time.sleep(0.05)


def restart(of_round: Round) -> Figures:
    path, log = of_round.folder / "seen.txt", of_round.folder / "log.txt"

    def start(partitions: int) -> subprocess.Popen[bytes]:
        checkpoint = str(of_round.folder / "checkpoint")
        command = ridgeline_run("steady_sums.py", "--checkpoint", checkpoint, "--path", str(path))
        command += ["--partitions", str(partitions)]
        with log.open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    process = start(2)
    try:
        _wait_for(path, 300)
        before = len(_seen(path))
        begin = time.time()
        process.send_signal(signal.SIGINT)
        process.wait(_PATIENCE_SECONDS)
        process = start(3)
        _wait_for(path, before + 100)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_PATIENCE_SECONDS)
    return {GAP: [longest(_seen(path), begin, begin + _PATIENCE_SECONDS)]}


def flink_savepoint(of_round: Round) -> Figures:
    from benchmarks.flink import Flink, growth

    with Flink(of_round.folder, 4, "default") as flink, growth(flink.printed) as times:
        job = flink.submit(PER_SECOND, KEYS, **_TWO)
        flink.wait(lambda: len(times) > 300)
        begin = time.monotonic()
        savepoint = flink.savepoint_and_stop(job)
        seen = len(times)
        flink.submit(
            PER_SECOND, KEYS, **{"parallelism.default": 3, "execution.state-recovery.path": savepoint}
        )
        flink.wait(lambda: len(times) > seen + 300)
        return {GAP: [longest(times, begin, time.monotonic())], USUAL: [_usual(times[100:seen])]}


def flink_adaptive(of_round: Round) -> Figures:
    from benchmarks.flink import Flink, growth

    gaps = []
    with Flink(of_round.folder, 4, "adaptive") as flink, growth(flink.printed) as times:
        job = flink.submit(PER_SECOND, KEYS, **_TWO)
        flink.wait(lambda: len(times) > 300)
        usual = _usual(times[100:])
        for number in range(2 if of_round.quick else TIMES):
            begin, wanted = time.monotonic(), 3 - number % 2
            flink.rescale(job, wanted)
            flink.wait(lambda wanted=wanted: _parallelism(flink.get(f"/jobs/{job}")) == wanted)
            time.sleep(4 * _AFTER_SECONDS)
            gaps.append(longest(times, begin, time.monotonic()))
    return {GAP: gaps, USUAL: [usual]}


def _parallelism(job: dict[str, object]) -> int:
    vertices = job["vertices"]
    assert isinstance(vertices, list)
    return max(int(one["parallelism"]) for one in vertices if one["status"] == "RUNNING")


BENCHMARKS = (
    Benchmark(
        name="change",
        title="change: a partition more for a keyed operator, seen at the sink",
        contestants={
            "ours": ours,
            "restart": restart,
            "Flink, savepoint and restart": flink_savepoint,
            "Flink, adaptive scheduler": flink_adaptive,
        },
        goals=[
            Goal(figure=GAP, against="restart", at_most=0.1),
            Goal(figure=GAP, against="Flink, savepoint and restart", at_most=0.1),
            Goal(figure=GAP, against="Flink, adaptive scheduler", at_most=1.0),
        ],
        budget_seconds=240,
        part_of_all=False,
    ),
)
