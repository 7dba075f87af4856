"""Two partitions whose processes send heartbeats half a second apart, in windows of 5 s that catch up."""

from ridgeline.measure.events import (
    ContainerHeartbeat,
    RunningOperator,
    SourceProgress,
    SourceTaken,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.progress.fold import ProgressFold
from ridgeline.measure.topology import OperatorNode, StreamEdge, Topology
from support.measure.reports import of_reports
from support.measure.simulated_window import operator_ended

HELD, SECONDS, ARRIVALS = 10_000.0, 5.0, 1000.0


def topology():
    def node(number, name, partition, partitions, kind, stage):
        return OperatorNode(
            number,
            name,
            f"{name}[{partition}]" if partitions > 1 else name,
            "x.X",
            partition,
            partitions,
            unifier=False,
            stateful=False,
            kind=kind,
            container=number,
            stage=stage,
            inputs=() if kind == "input" else ("input",),
            outputs=("output",) if kind == "input" else (),
        )

    read = node(1, "read", 0, 1, "input", 0)
    slow = [node(2 + number, "slow", number, 2, "output", 1) for number in range(2)]
    return Topology((read, *slow), tuple(StreamEdge("numbers", 1, "output", one.id, "input") for one in slow))


def waits_at(now):
    """All that has arrived."""
    return 100_000.0 + ARRIVALS * now


def test_one_of_two_says_nothing_of_the_whole():
    fold = ProgressFold(1.0)
    fold.planned(topology())
    said = []
    for window in range(8):
        begin, taken = window * SECONDS, HELD * (window + 1)
        fold.window_planned(WindowPlanned(begin, window, 0, float(window)))
        fold.window_started(WindowStarted(begin, window, 0))
        for step in range(1, int(SECONDS / 0.5)):
            now = begin + step * 0.5 + 0.1
            slow = 2 + step % 2
            waits = waits_at(now) - taken
            if now - begin > 1.0:
                done = HELD / 2 * (now - begin) / SECONDS
                counts = {"input": int(done)}, {"input": int(HELD / 2 - done)}
                running = RunningOperator(slow, "running", now - begin, *counts)
                took = SourceTaken(0.0, window, 0, 1, taken, waits, "records", 0.0)
                beat = ContainerHeartbeat(now, slow, "h", slow, now, window, 0, begin, (running,))
                fold.heartbeat(
                    beat
                    if slow == 2
                    else ContainerHeartbeat(
                        now, slow, "h", slow, now, window, 0, begin, (running,), taken=(took,)
                    )
                )
            if window >= 4:  # the first ones show how fast it is
                said.append(fold.progress(now)["application"]["verdict"])
        end = begin + SECONDS
        fold.source(SourceProgress(end, window, 1, taken, waits_at(begin) - taken, "records", asked=begin))
        fold.operators_ended(
            of_reports(
                operator_ended(window, 1, 0.01, {}, {"output": HELD}, at=end),
                *(operator_ended(window, one, SECONDS, {"input": HELD / 2}, {}, at=end) for one in (2, 3)),
            )
        )
        fold.window_committed(WindowCommitted(end, window, 1, begin, *[end] * 6))
    assert set(said) == {"catching up"}
