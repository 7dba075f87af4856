"""Partitions that share hot keys, on real Spark, while partitioners change and slots are killed."""

import os
import signal
import threading
from collections import Counter

import pytest

from ridgeline import Application, InputOperator, OutputPort, State, StickyPartitioner
from ridgeline.api.balancing import BalancedPartitioner
from ridgeline.plan.edits import Repartition
from ridgeline.plan.spec.values import write_partitioner
from ridgeline.stram.changes import EditPlan
from ridgeline.testing import CollectorSink
from support.engine.on_spark import planner_of, run_on_spark
from support.plan.shared_words import SHARED, Count, Word, zipf

pytestmark = pytest.mark.spark
WINDOWS = zipf(30, 60)
CHANGES = [
    Repartition("count", None, write_partitioner(SHARED)),
    Repartition("count", 2),
    Repartition("count", None, write_partitioner(BalancedPartitioner(2, [0, 0, 1, 1], {3: (0, 1)}))),
    Repartition("count", 3, write_partitioner(StickyPartitioner())),
    Repartition("count", None, write_partitioner(SHARED)),
]
_WINDOWS_AFTER = 10


class Words(InputOperator):
    """The words of a window, again and again."""

    output = OutputPort(Word)
    window = State(0)

    def emit_tuples(self):
        for word in WINDOWS[self.window % len(WINDOWS)]:
            self.output.emit(Word(word, 1))
        self.window += 1


def test_counts_are_exact_while_words_are_shared_and_slots_die(spark_context, tmp_path):
    app = Application("shared", window="10ms")
    words = app.add_operator("words", Words())
    count = app.add_operator("count", Count(), partitions=3)
    sink = app.add_operator("sink", CollectorSink(Word))
    app.add_stream("words", words.output, count.data)
    app.add_stream("counts", count.output, sink.input)
    left, asked, killed, after, stop = list(CHANGES), [], [], [], threading.Event()

    def each(run, committed):
        if committed.window_id > 3 and all(one.done.is_set() for one in asked):
            if left:
                asked.append(run.run.changes.ask(EditPlan((left.pop(0),)), "test"))
            else:
                after.append(committed.window_id)
        if len(killed) < min(len(asked), 3):
            pids = {joined.slot: joined.pid for joined in run.of_slots("joined", "restarted")}
            killed.append(pids[len(killed) % 2])
            os.kill(killed[-1], signal.SIGKILL)
        if len(after) > _WINDOWS_AFTER:
            stop.set()

    run = run_on_spark(app, spark_context, tmp_path / "state", each=each, stop=stop, planner=planner_of(app))
    assert [(one.state, one.reason) for one in asked] == [("APPLIED", "")] * len(CHANGES)
    assert run.of_slots("lost")
    assert run.ids == list(range(len(run.ids)))
    for window in run.ids:
        found = Counter()
        for word, number in run.collected("sink", window):
            assert word not in found, window
            found[word] = number
        assert found == Counter(WINDOWS[window % len(WINDOWS)]), window
