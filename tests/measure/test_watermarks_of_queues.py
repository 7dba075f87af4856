"""Watermarks behind a queue between regions: who holds its reader back."""

import pytest

from ridgeline.api.times import EARLIEST, LATEST
from ridgeline.measure.answers.watermarks import Mark, watermarks_answer
from ridgeline.measure.events import WatermarkReading
from support.measure.partitioned import chain

SECOND = 1_000_000


def rows_of(writer, reader, sink, *, idle=False):
    """The rows of a source, the writer of a queue, its reader and a sink; two have the same time."""
    topology = chain("source", "writer", "reader", "sink")
    times = zip(topology.operators, (writer, writer, reader, sink), strict=True)
    marks = {node.id: Mark(WatermarkReading(time, time, idle), 0, 0, 100.0) for node, time in times}
    found = watermarks_answer(marks, topology, {topology.operators[2].id: "orders"})
    return {
        row["operator"]: (row["state"], row["heldBackBy"], row["idleInputs"]) for row in found["operators"]
    }


@pytest.mark.parametrize(
    ("times", "holder"),
    [
        ((20 * SECOND, 20 * SECOND, 20 * SECOND), "source"),  # it waits for what the writer waits for
        ((30 * SECOND, 20 * SECOND, 20 * SECOND), "queue orders"),  # what is written would move it on
        ((20 * SECOND, EARLIEST, EARLIEST), "queue orders"),
        ((LATEST, 20 * SECOND, 20 * SECOND), "reader"),  # nothing is known to be behind it
    ],
)
def test_a_reader_is_held_back_by_what_is_in_the_queue_or_behind_it(times, holder):
    rows = rows_of(*times)
    assert (rows["reader"][1], rows["sink"][1]) == ([holder], [holder])
    assert rows["source"][1] == []


def test_idle_inputs_are_those_behind_the_queue():
    rows = rows_of(20 * SECOND, 20 * SECOND, 20 * SECOND, idle=True)
    assert [rows[name][2] for name in ("writer", "reader", "sink")] == [["source"]] * 3


def test_a_reader_that_has_finished_is_held_back_by_nobody():
    assert rows_of(LATEST, LATEST, LATEST)["reader"] == ("finished", [], [])
