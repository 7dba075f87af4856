"""Durable queues: what one application writes, others read, each tuple once, whatever fails."""

import json
import shutil
import threading
import time
from dataclasses import replace
from itertools import chain
from random import Random
from typing import NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from ridgeline import Application, OperatorError, PublisherContext, RidgelineError
from ridgeline.operators import QueueInput, QueueOutput, _queue_enumerator, _queue_log, _queue_publisher
from ridgeline.operators._queue_files import Entry, QueueFolder
from ridgeline.operators._queue_log import LogReader, LogWriter
from ridgeline.operators._queue_publisher import QueuePublisher
from ridgeline.plan.edits import RenameOperator, Repartition, SetProperty
from ridgeline.testing import CollectorSink, ListInput, SteppingClock, run_local
from support.depth import deep
from support.operators.queues import (
    Order,
    PassOn,
    check_both_sides,
    check_reading_while_it_is_written,
    in_windows,
    orders,
    read_all,
    reader,
    writer,
)
from support.testing.shares import share


@pytest.mark.parametrize(("read_by", "written_by"), share(2, [1, 2, 5], [1, 2, 3, 5]))
def test_every_tuple_once_and_in_the_order_of_its_key(tmp_path, written_by, read_by):
    rows = orders(6)
    run_local(writer(tmp_path / "queue", rows, written_by))

    assert sorted(read_all(tmp_path / "queue", tmp_path / "reader", read_by)) == sorted(rows)


@pytest.mark.parametrize(("live", "read_by"), share(2, [False, True], [1, 2, 3, 5]))
def test_keys_stay_in_order_where_the_writers_partitions_change(tmp_path, read_by, live):
    rows, many = orders(24), [3, 1, 2, 5, 2, 3]
    for stop in range(4, 25, 4):
        run_local(
            writer(tmp_path / "queue", rows, 3 if live else many[stop // 4 - 1]),
            checkpoint=tmp_path / "writer",
            windows=4,
            changes={2: [Repartition("divide", many[stop // 4 - 1])]} if live else {},
        )

    assert sorted(read_all(tmp_path / "queue", tmp_path / "reader", read_by)) == sorted(rows)


def test_a_window_of_the_writer_that_is_far_larger_than_the_budget_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(_queue_enumerator, "_WINDOW_ROWS", 6)
    run_local(writer(tmp_path / "queue", rows := orders(3), 2))

    run = run_local(reader(tmp_path / "queue", 2))
    assert sorted(run.collected("sink")) == sorted(rows)
    assert max(len(run.collected("sink", window=window)) for window in range(len(run.windows()))) <= 12


def test_two_readers_have_it_all(tmp_path):
    rows = orders(4)
    run_local(writer(tmp_path / "queue", rows))

    for name in ("one", "two"):
        run = run_local(reader(tmp_path / "queue", name=name), checkpoint=tmp_path / name)
        assert sorted(run.collected("sink")) == sorted(rows)


@settings(max_examples=deep(5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), most=st.sampled_from([3, 1_000_000]))
def test_stops_kills_and_other_partitions_on_both_sides(tmp_path, seed, most):
    folder = tmp_path / uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_queue_enumerator, "_WINDOW_ROWS", most)  # those of the writer have 20
        check_both_sides(folder / "queue", folder, Random(seed))


# What dies where --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "half", "after"])
def test_a_driver_that_dies_around_the_publication(tmp_path, monkeypatch, moment):

    rows, append = orders(6), LogWriter.append
    deaths = iter([False, True, False, False, True] + [False] * 100)

    def dying(self, entries, *limits):
        dies = next(deaths) if entries else False
        if dies and moment == "before":
            raise KeyboardInterrupt
        append(self, entries, *limits)
        if dies and moment == "half":
            path = max(self._folder.log.iterdir())
            path.rename(path.with_suffix(".tmp"))
        if dies:
            raise KeyboardInterrupt

    monkeypatch.setattr(LogWriter, "append", dying)
    died = 0
    while True:
        try:
            run_local(writer(tmp_path / "queue", rows, 2), checkpoint=tmp_path / "writer")
            break
        except KeyboardInterrupt:
            died += 1

    assert died == 2
    assert sorted(read_all(tmp_path / "queue", tmp_path / "reader")) == sorted(rows)


@pytest.mark.parametrize("broken", [bytes(60), bytes(60) + b"\n", b"[9,\0\0,1]\n[4,4", b"", None])
@pytest.mark.parametrize("many", [2, 256])
def test_a_power_cut_that_breaks_what_the_log_had_not_synced(tmp_path, monkeypatch, broken, many):
    """A file may be gone or half, or have zeros where its content should be, though later ones are there."""
    monkeypatch.setattr(_queue_log, "BUNDLE_ENTRIES", many)
    rows, folder = orders(8), tmp_path / "queue/log"
    app = writer(tmp_path / "queue", rows)
    run_local(app, checkpoint=tmp_path / "writer", windows=2)
    monkeypatch.setattr(_queue_publisher, "_SYNC_SECONDS", 1e9)
    monkeypatch.setattr(LogWriter, "sync", lambda self: None)
    run_local(app, checkpoint=tmp_path / "writer", windows=5)
    monkeypatch.undo()
    first = min(folder.glob("*.entry"))
    assert len(list(folder.iterdir())) == (4 if many == 2 else 6)
    first.unlink() if broken is None else first.write_bytes(broken)

    run_local(app, checkpoint=tmp_path / "writer")

    assert sorted(read_all(tmp_path / "queue", tmp_path / "reader")) == sorted(rows)


# The end of the writer's inputs -----------------------------------------------------------------------------


def test_a_reader_goes_on_until_the_writer_has_finished(tmp_path):
    rows = orders(6)
    run_local(writer(tmp_path / "queue", rows, 2), checkpoint=tmp_path / "writer", windows=2)
    before = run_local(reader(tmp_path / "queue"), checkpoint=tmp_path / "reader", windows=3)
    run_local(writer(tmp_path / "queue", rows, 2), checkpoint=tmp_path / "writer")
    after = run_local(reader(tmp_path / "queue"), checkpoint=tmp_path / "reader")

    assert len(before.collected("sink")) == 40
    assert sorted(before.collected("sink") + after.collected("sink")) == sorted(rows)


def test_an_end_in_the_middle_of_the_log_is_passed(tmp_path, monkeypatch):
    rows, read = orders(6), LogReader.read
    for first in (0, 40, 80):  # each run ends
        run_local(writer(tmp_path / "queue", rows[first : first + 40]))

    def slowly(self, *limit):
        time.sleep(0.02)
        return read(self, *limit)

    monkeypatch.setattr(LogReader, "read", slowly)
    monkeypatch.setattr(_queue_enumerator, "BUNDLE_ENTRIES", 1)  # so much is read before the first window
    assert sorted(read_all(tmp_path / "queue", tmp_path / "reader")) == sorted(rows)


def test_a_reader_takes_what_comes_while_it_runs(tmp_path):
    check_reading_while_it_is_written(tmp_path / "queue", tmp_path)


# Where a reader begins, and what it has lost ----------------------------------------------------------------


def test_begin_with_the_latest(tmp_path):
    rows = orders(6, customers=1)
    run_local(writer(tmp_path / "queue", rows), checkpoint=tmp_path / "writer", windows=3)
    app = Application("late")
    queue = QueueInput(path=tmp_path / "queue", schema=Order, begin="latest")
    app.read("queue", queue).write("sink", CollectorSink(Order))
    run_local(app, checkpoint=tmp_path / "late", windows=1)
    run_local(writer(tmp_path / "queue", rows), checkpoint=tmp_path / "writer")

    assert run_local(app, checkpoint=tmp_path / "late").collected("sink") == rows[60:]


def drop_old(tmp_path, rows, **properties):
    """A queue whose first half is dropped, since nobody reads it."""
    clock = SteppingClock()
    app = writer(tmp_path / "queue", rows, keep="40s", **properties)
    run_local(app, checkpoint=tmp_path / "writer", windows=40, clock=clock)
    clock.advance(100)
    run_local(app, checkpoint=tmp_path / "writer", windows=40, clock=clock)


def test_what_nobody_reads_is_dropped(tmp_path):
    rows = orders(200, customers=1)
    drop_old(tmp_path, rows)

    with pytest.raises(OperatorError, match=r"customer 0: order [0-9]+ came, 0 was due"):
        read_all(tmp_path / "queue", tmp_path / "reader")
    sizes = [path.stat().st_size for path in (tmp_path / "queue/segments").iterdir()]
    assert len(sizes) == 1


def test_a_reader_that_was_away_too_long_is_told(tmp_path):
    rows = orders(200, customers=1)
    app = writer(tmp_path / "queue", rows, keep="40s", when_full="drop")
    clock = SteppingClock()
    run_local(app, checkpoint=tmp_path / "writer", windows=3, clock=clock)
    run_local(reader(tmp_path / "queue"), checkpoint=tmp_path / "reader", windows=2)
    run_local(app, checkpoint=tmp_path / "writer", windows=40, clock=clock)
    clock.advance(100)
    run_local(app, checkpoint=tmp_path / "writer", windows=40, clock=clock)

    with pytest.raises(RidgelineError, match=r"has no entry 3 any more.*set `when_lost` to `skip`"):
        run_local(reader(tmp_path / "queue"), checkpoint=tmp_path / "reader", windows=2)


def test_a_segment_to_which_a_partition_may_append_is_not_dropped(tmp_path):
    """All entries that name it are dropped while the partition has no rows; then it has some again."""
    seldom = [Order(0, number) for number in range(2)]
    rows = [seldom[0], *(Order(2, number) for number in range(200)), seldom[1]]
    app = Application("shop")
    divided = app.read("source", ListInput(Order, in_windows(rows, 1))).process(
        "divide", PassOn(), partitions=2
    )
    divided.write("queue", QueueOutput(path=tmp_path / "queue", keep="10s"))
    run_local(app, clock=SteppingClock())

    found = Application("late").read("queue", QueueInput(path=tmp_path / "queue", schema=Order)).collect()
    assert found[-1] == seldom[1]
    assert seldom[0] not in found
    assert len(list((tmp_path / "queue/segments").iterdir())) == 2


# A queue that is full ---------------------------------------------------------------------------------------


def test_back_pressure_and_then_on(tmp_path, caplog):
    rows = orders(60)
    path, clock = tmp_path / "queue", SteppingClock()
    app = writer(path, rows, keep="10s")
    run_local(app, checkpoint=tmp_path / "writer", windows=3, clock=clock)
    run_local(reader(path), checkpoint=tmp_path / "reader", windows=1)
    blocked = threading.Thread(target=lambda: run_local(app, checkpoint=tmp_path / "writer", clock=clock))
    blocked.start()
    while "no window begins" not in caplog.text:
        blocked.join(0.01)
    found = read_all(path, tmp_path / "reader")
    blocked.join(60)

    assert not blocked.is_alive()
    assert "is full: reader `board.queue-" in caplog.text
    assert "windows begin again" in caplog.text
    assert max(found) == max(rows)


# Damage, and what is refused --------------------------------------------------------------------------------


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (flipped, "the checksum"),
        (lambda data: data[:-1], "it has [0-9]+ bytes, [0-9]+ are named"),
        (None, "it is missing; restore"),
    ],
)
def test_a_damaged_segment_is_named(tmp_path, damage, what):
    run_local(writer(tmp_path / "queue", orders(2)))
    [segment] = (tmp_path / "queue/segments").iterdir()
    segment.write_bytes(damage(segment.read_bytes())) if damage else segment.unlink()

    with pytest.raises(OperatorError, match=f"`queue`.*`{segment}` is damaged: {what}"):
        read_all(tmp_path / "queue", tmp_path / "reader")


@pytest.mark.parametrize("damage", [b"{}\n", b"not json\n", b"[7,7,0.0,0,[],false]\n"])
def test_a_damaged_log_is_named(tmp_path, damage):
    run_local(writer(tmp_path / "queue", orders(2)))
    [log] = (tmp_path / "queue/log").iterdir()
    log.write_bytes(damage + log.read_bytes())

    with pytest.raises(RidgelineError, match=f"`{log}` is damaged: "):
        read_all(tmp_path / "queue", tmp_path / "reader")


BEGUN = ("copy/journal", "copy/committed")


@pytest.mark.parametrize(
    ("older", "gone", "ends"),
    [("copy", (), (5, 1)), ("copy", BEGUN, (5, -1)), ("writer", ["queue/log"], (-1, 5))],
)
def test_an_older_copy_is_refused(tmp_path, older, gone, ends):
    app = writer(tmp_path / "queue", orders(6))
    run_local(app, checkpoint=tmp_path / "writer", windows=2)
    shutil.copytree(tmp_path / "writer", tmp_path / "copy")
    run_local(app, checkpoint=tmp_path / "writer")
    for folder in gone:
        shutil.rmtree(tmp_path / folder)

    with pytest.raises(
        RidgelineError, match="ends with entry {}, the checkpoint with entry {};".format(*ends)
    ):
        run_local(app, checkpoint=tmp_path / older)


def test_other_columns_are_refused(tmp_path):
    class Other(NamedTuple):
        text: str

    run_local(writer(tmp_path / "queue", orders(2)))
    app = Application("other")
    app.read("source", ListInput(Other, [("a",)])).write("queue", QueueOutput(path=tmp_path / "queue"))

    with pytest.raises(RidgelineError, match="`queue` writes other columns than queue"):
        run_local(app)


def test_a_second_writer_stops_the_first(tmp_path):
    app = writer(tmp_path / "queue", orders(6))
    run_local(app, checkpoint=tmp_path / "writer", windows=2)
    run_local(writer(tmp_path / "queue", orders(2)))

    with pytest.raises(RidgelineError, match=r"does not write to queue .* any more: `queue` of `shop` does"):
        run_local(app, checkpoint=tmp_path / "writer")


def test_no_queue_there(tmp_path):
    with pytest.raises(RidgelineError, match=r"there is no queue in .*; start the application that writes"):
        run_local(reader(tmp_path / "nothing"))


def test_a_queue_of_unknown_columns(tmp_path):
    queue = Application("board").read("queue", QueueInput(path=tmp_path / "nothing"))
    with pytest.raises(RidgelineError, match="nothing was written to the queue yet; give the type"):
        queue.collect()


def test_the_columns_of_the_queue(tmp_path):
    rows = orders(2)
    run_local(writer(tmp_path / "queue", rows))
    found = Application("board").read("queue", QueueInput(path=tmp_path / "queue")).collect()

    assert found == [row._asdict() for row in rows]


def test_a_rewind_past_what_readers_may_have_is_refused(tmp_path):
    app = writer(tmp_path / "queue", orders(6))
    run_local(app, checkpoint=tmp_path / "writer", windows=4)

    with pytest.raises(
        RidgelineError, match=r"1 entries of queue .* after window 2, .*; rewind to window 3 or later"
    ):
        run_local(app, checkpoint=tmp_path / "writer", from_window=2)


def test_a_reader_that_is_rewound_reads_again(tmp_path):
    rows = orders(6, customers=1)
    path = tmp_path / "queue"
    run_local(writer(path, rows), checkpoint=tmp_path / "writer", windows=2)
    first = run_local(reader(path), checkpoint=tmp_path / "reader", windows=1).collected("sink")
    run_local(writer(path, rows), checkpoint=tmp_path / "writer")
    run_local(reader(path), checkpoint=tmp_path / "reader", windows=1)
    again = run_local(reader(path), checkpoint=tmp_path / "reader", from_window=0).collected("sink")

    assert first + again == rows


def test_what_a_rewind_goes_back_to_stays_until_it_is_read(tmp_path, monkeypatch):
    """The writer may look what it can drop after the rewind was accepted, before the reader is there."""
    rows, path = orders(6, customers=1), tmp_path / "queue"
    opens, said = _queue_enumerator.QueueEnumerator.open, []

    def late(self, *given):
        said.extend(QueueFolder(path).registered(name).next for name in QueueFolder(path).readers_known())
        opens(self, *given)

    for windows in (4, 2):
        run_local(writer(path, rows), checkpoint=tmp_path / "writer", windows=windows)
        run_local(reader(path), checkpoint=tmp_path / "reader", windows=1)
    monkeypatch.setattr(_queue_enumerator.QueueEnumerator, "open", late)
    run_local(reader(path), checkpoint=tmp_path / "reader", from_window=0)
    assert said == [4]


def test_the_backlog_in_tuples(tmp_path):
    rows = orders(6)
    run_local(writer(tmp_path / "queue", rows))
    status = run_local(reader(tmp_path / "queue")).watch.progress()

    assert json.dumps(status).count('"tuples"') >= 1


# Changes while it runs ------------------------------------------------------------------------------------


def test_partitions_properties_and_names_change_while_both_run(tmp_path):
    rows, path = orders(12), tmp_path / "queue"
    written = run_local(
        writer(path, rows),
        checkpoint=tmp_path / "writer",
        windows=8,
        changes={
            2: [Repartition("divide", 3)],
            4: [SetProperty("queue", "keep", "2h")],
            6: [RenameOperator("queue", "published")],
        },
    )
    read = run_local(
        reader(path),
        checkpoint=tmp_path / "reader",
        windows=4,
        changes={1: [Repartition("queue", 3)], 2: [RenameOperator("queue", "orders")]},
    )
    run_local(writer(path, rows), checkpoint=tmp_path / "writer")
    last = run_local(reader(path), checkpoint=tmp_path / "reader")

    for run in (written, read):
        assert [change.state for change in run.changes] == ["APPLIED"] * len(run.changes)
    assert sorted(read.collected("sink") + last.collected("sink")) == sorted(rows)
    [registered] = (path / "readers").iterdir()
    assert registered.name.startswith("board.orders-")


def test_renamed_between_two_runs(tmp_path):
    rows, path = orders(6), tmp_path / "queue"
    run_local(writer(path, rows), checkpoint=tmp_path / "writer", windows=3)
    app = Application("shop")
    divided = app.read("source", ListInput(Order, in_windows(rows))).process("divide", PassOn())
    divided.write("published", QueueOutput(path=path))
    run_local(app, checkpoint=tmp_path / "writer", rename={"queue": "published"})

    assert sorted(read_all(path, tmp_path / "reader")) == sorted(rows)


def test_a_change_of_the_reader_that_is_taken_back_loses_nothing(tmp_path):
    rows, path = orders(12), tmp_path / "queue"
    run_local(writer(path, rows), checkpoint=tmp_path / "writer", windows=4)
    app = reader(path)
    first = run_local(app, checkpoint=tmp_path / "reader", windows=1)
    run_local(writer(path, rows), checkpoint=tmp_path / "writer")
    changes = {1: [SetProperty("check", "broken", True)]}
    rest = run_local(app, checkpoint=tmp_path / "reader", changes=changes)

    [change] = rest.changes
    assert change.state == "REFUSED"
    assert sorted(first.collected("sink") + rest.collected("sink")) == sorted(rows)


def test_a_publisher_that_is_opened_again_leaves_the_segments_of_living_containers(tmp_path):
    run_local(writer(tmp_path / "queue", orders(2)), checkpoint=tmp_path / "writer", windows=1)
    of_container = tmp_path / "queue/segments/p0-new.segment"
    description = json.loads((tmp_path / "queue/queue.json").read_text())
    given = description["run_id"], SteppingClock(), Console(), "", lambda: None, description["epoch"]
    context = PublisherContext("shop", "queue", *given, check_owner=lambda: None, committed=0)
    of_container.touch()
    publisher = QueueOutput(path=str(tmp_path / "queue")).publisher()
    publisher.open(context, None)
    assert of_container.exists()

    publisher.open(replace(context, epoch=context.epoch + 1), None)
    assert not of_container.exists()


def test_a_queue_that_was_replaced_by_another_is_refused(tmp_path):
    path = tmp_path / "queue"
    run_local(writer(path, orders(6)), checkpoint=tmp_path / "writer", windows=4)
    run_local(reader(path), checkpoint=tmp_path / "reader", windows=2)
    shutil.rmtree(path)
    run_local(writer(path, orders(2)))

    with pytest.raises(RidgelineError, match="holds another queue than the one that this run has read"):
        run_local(reader(path), checkpoint=tmp_path / "reader", windows=2)


def test_a_writer_that_was_replaced_between_two_looks_appends_nothing(tmp_path, monkeypatch):
    path, stage = tmp_path / "queue", QueuePublisher.stage

    def replaced(self, window_id, values):
        if window_id == 2:
            folder = QueueFolder(str(path))
            folder.describe({**folder.description, "run_id": "another"})
        return stage(self, window_id, values)

    monkeypatch.setattr(QueueFolder, "readers_look_seconds", 3600.0)
    monkeypatch.setattr(QueuePublisher, "stage", replaced)
    with pytest.raises(RidgelineError, match="does not write to queue"):
        run_local(writer(path, orders(6)))

    [log] = (path / "log").iterdir()
    assert len(log.read_text().splitlines()) == 2


def test_bundles_of_a_driver_that_was_replaced_and_files_of_others_do_no_harm(tmp_path, monkeypatch):
    monkeypatch.setattr(_queue_log, "BUNDLE_ENTRIES", 4)
    folder = QueueFolder(str(tmp_path))
    folder.make()
    entries = [Entry(number, number, 0.0, 0, (), end=False) for number in range(12)]
    writing = LogWriter(folder)
    writing.append(entries[:10], 2**30, 3600.0)
    writing.sync()
    folder.put("log/000000000000-000000000006.jsonl", b"".join(entry.line for entry in entries[:6]))
    for other in (".nfs0001", "note.txt"):
        folder.put(f"log/{other}", b"of somebody else")

    again = LogWriter(folder)
    again.append(entries[10:], 2**30, 3600.0)
    again.drop(0)

    read = chain.from_iterable(iter(LogReader(folder, 6).read, []))
    assert [entry.number for entry in read] == list(range(6, 12))
    assert {".nfs0001", "note.txt"} < set(folder.names("log"))
