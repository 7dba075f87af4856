"""An input that reads a history first and then a live source reads each record once, against plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.connect.memory_source import LOGS, START, Entry, Log, MemoryInput, MemorySource, steps

from ridgeline import Application, DeadLetter, RidgelineError, ValidationError
from ridgeline.connect import Source
from ridgeline.operators import FileInput, SocketInput, Windowed, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.operators.postgres import PostgresInput
from ridgeline.plan import plan_application
from ridgeline.plan.edits import Repartition
from ridgeline.plan.shown_properties import secret_names, shown_properties
from ridgeline.testing import CollectorSink, Faults, run_local
from support.depth import deep, deeper


def whole(records: dict[str, int]) -> Log:
    """A log that has all from the start, and gets nothing more."""
    log = Log([records])
    log.step()
    return log


def source_of(history: Log, live: Log, *, of_history: dict[str, Any] | None = None, **properties: Any) -> Any:
    LOGS["history"], LOGS["live"] = history, live
    first = MemoryInput("history", **{"window_records": 25, **(of_history or {})})
    given = {"discover_every": 0.0, "timestamp": "at", "window_records": 40, **properties}
    return MemoryInput("live", history=first, **given)


def application(source: Any, partitions: int = 1, **attributes: Any) -> Application:
    app = Application("memory", window="100ms")
    read = app.add_operator("source", source, partitions=partitions, **attributes)
    sink = app.add_operator("sink", CollectorSink(Entry))
    app.add_stream("entries", read.output, sink.input)
    return app


def counting(source: Any, partitions: int = 1) -> Application:
    """Records by source partition in windows of ten seconds."""
    app = Application("memory", window="100ms")
    read = app.add_operator("source", source, partitions=partitions)
    counted = app.add_operator(
        "counted",
        Windowed(
            tumbling("10s"), key="partition", values={"start": agg.window_start(), "count": agg.count()}
        ),
        partitions=2,
    )
    sink = app.add_operator("sink", CollectorSink(Any))
    app.add_stream("entries", read.output, counted.input)
    app.add_stream("counts", counted.output, sink.input)
    return app


def places(rows: Any) -> Counter[tuple[str, int]]:
    return Counter((row.partition, row.place) for row in rows)


def once(live: Log, *logs: Log) -> Counter[tuple[str, int]]:
    """Each record that one of the logs has, once."""
    return Counter({(row.partition, row.place) for log in (live, *logs) for row in log.all()})


def windows_of(rows: Counter[tuple[str, int]]) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = Counter()
    for (name, place), count in rows.items():
        found[name, place // 10] += count
    return dict(found)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 2 + deep(10)))]
)
def test_windows_of_event_time_across_the_seam(seed: int) -> None:
    """Some partitions are far behind others, drivers and containers die: no record is late or lost."""
    random = Random(seed)
    history = whole({f"p{number}": 40 + random.randint(0, 12) for number in range(4)})
    live = Log([{f"p{number}": random.randint(32, 56) for number in range(4)}, *steps(seed, most=16)])
    live.step()
    partitions = (1, 2, 3, 5)[seed % 4]
    seam = START + timedelta(seconds=40)  # the history is whole up to there
    of_history = {"lateness": "80s"} if seed % 2 else {}
    source = source_of(history, live, begin=seam, lateness="1s", of_history=of_history)
    faults = Faults(seed=seed, rate=0.15, kinds=["exception", "kill", "repeat", "restart"])
    app = counting(source, partitions)
    changes = {window: [Repartition("source", random.choice([1, 3, 5]))] for window in (3, 9)}
    run = run_local(app, faults=faults, changes=changes, interleave=seed if seed % 3 else None)
    assert faults.struck
    found: dict[tuple[str, int], int] = Counter()
    for row in run.collected("sink"):
        found[row["partition"], (row["start"] - START) // timedelta(seconds=10)] += row["count"]
    wanted = Counter((row.partition, row.place) for row in history.all() if row.at < seam)
    wanted += Counter((row.partition, row.place) for row in live.all() if row.at >= seam)
    assert found == windows_of(wanted)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 2 + deep(10)))]
)
def test_the_live_source_follows_the_newest_record_of_the_history(seed: int) -> None:
    history = whole({f"p{number}": 77 for number in range(3)})
    live = Log([{f"p{number}": 60 + 10 * number for number in range(3)}, {"p0": 30}, {"p1": 40}, {"p2": 50}])
    live.step()
    partitions = (1, 2, 3, 5)[seed % 4]
    faults = Faults(seed=seed, rate=0.2, kinds=["exception", "kill", "repeat", "restart"])
    run = run_local(application(source_of(history, live), partitions), faults=faults)
    assert faults.struck
    assert places(run.collected("sink")) == once(live, history)


class Behind(Log):
    """It has nothing more until its first records are read, behind the seam."""

    def step(self) -> None:
        if not self.records or self.reads:
            super().step()


def test_where_the_live_source_begins(capsys: pytest.CaptureFixture[str]) -> None:
    def found(**properties: Any) -> Counter[tuple[str, int]]:
        kind = Log if properties.get("begin") == "latest" else Behind
        history, live = whole({"a": 40}), kind([{"a": 42}, {"a": 8}, {"b": 45}])
        live.step()
        run = run_local(application(source_of(history, live, **properties)))
        return places(run.collected("sink"))

    whole_a = Counter(("a", place) for place in range(50))
    late_b = Counter(("b", place) for place in range(45))
    history = Counter(("a", place) for place in range(40))
    assert found() == whole_a + Counter(("b", place) for place in range(40, 45))
    said = capsys.readouterr().out
    assert "its newest record is of 2026-01-01 00:00:39" in said
    assert "40 records of the live source so far are older than 2026-01-01 00:00:39.000001 UTC" in said
    at = START + timedelta(seconds=20)
    assert found(begin=at) == whole_a + Counter(("b", place) for place in range(20, 45))
    said = capsys.readouterr().out
    assert "20 records that are later were left to the live source" in said
    assert "20 records of the live source so far are older" in said
    assert found(begin={"a": 40}) == whole_a + late_b
    assert found(begin="latest") == history + Counter(("a", place) for place in range(42, 50)) + late_b
    capsys.readouterr()
    assert found(begin="earliest") == whole_a + history + late_b
    assert "if it has them, they were read twice" in capsys.readouterr().out
    assert found(until="end") == Counter(("a", place) for place in range(42))


def test_what_neither_the_history_nor_the_live_source_gives_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The history ends before the live source begins, which has the records between."""

    def said(**properties: Any) -> str:
        history, live = whole({"a": 40, "b": 30}), whole({"a": 90, "b": 90})
        run_local(application(source_of(history, live, **properties), 2))
        return capsys.readouterr().out

    text = said(begin=START + timedelta(seconds=60))
    assert "40 records of the live source so far are older than 2026-01-01 00:01:00" in text  # a, b: 20 each
    assert "newer than all of the history, which ends at 2026-01-01 00:00:39" in text
    text = said(begin={"a": 60, "b": 50})
    assert "30 records of the live source are before its positions of the start, and newer than" in text
    assert "neither gives" in said(begin=START + timedelta(hours=3))
    for properties in ({}, {"begin": "earliest"}, {"begin": {"a": 40, "b": 30}}, {"begin": START}):
        text = said(**properties)
        assert "not read;" not in text, properties
        assert "are not read" not in text, properties
        assert "neither gives" not in text, properties


def test_a_live_source_that_is_behind_its_own_times() -> None:
    """The source finds records by times of its own, which are less than an hour earlier."""

    class Early(MemorySource):
        def start(self, partitions: Sequence[str], begin: Any) -> dict[str, int]:
            return super().start(
                partitions, begin + timedelta(seconds=600) if isinstance(begin, datetime) else begin
            )

    class EarlyInput(MemoryInput):
        def source(self) -> Source:
            return Early(LOGS[self.log])

    for begin in (None, START + timedelta(seconds=70)):
        LOGS["history"], LOGS["live"] = whole({"a": 100, "b": 90}), whole({"a": 700, "b": 900})
        source = EarlyInput("live", timestamp="at", begin=begin, history=MemoryInput("history"))
        rows = places(run_local(application(source, 2)).collected("sink"))
        assert rows == once(LOGS["live"]) - (
            Counter(("b", place) for place in range(90, 100)) if begin is None else Counter()
        )


def test_records_that_are_deleted_before_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Short(MemorySource):
        """The first records of the live source are deleted."""

        def start(self, partitions: Sequence[str], begin: Any) -> dict[str, int]:
            return {name: max(50, at) for name, at in super().start(partitions, begin).items()}

        def resume(self, positions: Mapping[str, Any]) -> Mapping[str, Any]:
            if any(position < self.log.kept for position in positions.values()):
                raise RidgelineError("records are gone")
            return positions

    class ShortInput(MemoryInput):
        def source(self) -> Source:
            return Short(LOGS[self.log])

    def run(checkpoint: Any = None, windows: int | None = None) -> Any:
        first = MemoryInput("history", window_records=10)
        app = application(ShortInput("live", timestamp="at", history=first))
        return run_local(app, checkpoint=checkpoint, windows=windows)

    history, live = whole({"a": 40}), whole({"a": 90})
    LOGS["history"], LOGS["live"] = history, live
    live.kept = 50
    run()
    said = capsys.readouterr().out
    assert "source partition `a` begins with record 50, and those before it are deleted" in said
    checkpoint = tmp_path
    run(checkpoint, windows=1)
    live.kept = 95
    with pytest.raises(RidgelineError, match="records are gone"):
        run(checkpoint)


def test_what_comes_while_the_history_is_read_is_not_lost() -> None:
    """The live source goes on far beyond what it had when the run began."""
    history, live = whole({"a": 500}), Log([{"a": 500}, *({"a": 30} for _ in range(10))])
    live.step()
    run = run_local(application(source_of(history, live, of_history={"window_records": 20})))
    assert places(run.collected("sink")) == once(live)
    assert live.records == {"a": 800}


def test_an_end_before_the_seam_does_not_hold_up_other_source_partitions() -> None:
    """One gets its records up to the seam after the run began, and the input ends before these."""
    history, live = whole({"a": 70, "b": 70}), Log([{"a": 42, "b": 100}, {"a": 80}])
    live.waits = True
    live.step()
    source = source_of(history, live, until="end", begin=START + timedelta(seconds=60))
    rows = places(run_local(application(source, 2)).collected("sink"))
    assert rows == Counter([*(("a", place) for place in range(60)), *(("b", place) for place in range(100))])


@pytest.mark.parametrize(
    "windows", [1, 7, 8, 14, *(pytest.param(windows, marks=deeper) for windows in (3, 6, 9))]
)
def test_restarts_in_the_history_and_after_it(windows: int, tmp_path: Path) -> None:
    def run(count: int | None, **options: Any) -> Counter[tuple[str, int]]:
        source = source_of(history, live, of_history={"window_records": 100})
        return places(
            run_local(application(source, 2), windows=count, checkpoint=tmp_path, **options).collected("sink")
        )

    history = whole({"a": 50, "b": 50})
    live = Log([{"a": 70, "b": 50}, *({"a": 3, "b": 3} for _ in range(20))])
    live.step()
    rows = run(windows) + run(2) + run(None)
    assert rows == once(live)


@pytest.mark.parametrize("back", [0, 5, *(pytest.param(back, marks=deeper) for back in (2, 9))])
def test_a_rewind_into_the_history_reads_both_again(back: int, tmp_path: Path) -> None:
    def run(count: int | None, **options: Any) -> Counter[tuple[str, int]]:
        source = source_of(history, live, of_history={"window_records": 100})
        found = run_local(application(source, 2), windows=count, checkpoint=tmp_path, **options)
        return places(found.collected("sink"))

    history = whole({"a": 50, "b": 50})
    live = Log([{"a": 70, "b": 50}, *({"a": 3, "b": 3} for _ in range(25))], ends=True)
    live.step()
    before = run(back + 1)
    assert run(20)
    assert before + run(None, from_window=back) == once(live)


def test_a_history_whose_ends_are_not_known_at_once() -> None:
    history, live = whole({"a": 30, "b": 40}), whole({"a": 45, "b": 45})
    history.unknown = [{"a", "b"}, {"b"}]
    rows = places(run_local(application(source_of(history, live, begin="latest"))).collected("sink"))
    assert rows == once(history)


def test_an_empty_history() -> None:
    live = whole({"a": 12})
    run = run_local(application(source_of(Log([{}]), live)))
    assert places(run.collected("sink")) == once(live)


def test_a_history_of_files_counts_in_the_units_of_the_live_source(tmp_path: Path) -> None:
    """Files count bytes, the live source records: the backlog is both, in records."""
    for name in ("a", "b"):
        lines = "".join(f"{name},{place},{START + timedelta(seconds=place)}\n" for place in range(5_000))
        (tmp_path / f"{name}.csv").write_text("partition,place,at\n" + lines)
    LOGS["live"] = live = whole({"a": 5_050, "b": 5_050})
    files = FileInput(f"{tmp_path}/*.csv", Entry, window_bytes=8_000, settle=0)
    source = MemoryInput("live", timestamp="at", history=files, discover_every=0.0)
    run = run_local(application(source, 2), windows=3)
    [found] = run.watch.progress()["sources"]
    assert found["unit"] == "records"
    left = 2 * 5_000 - len(run.collected("sink"))
    assert 0.5 * left < (found["backlog"]["value"] or 0.0) < 2 * left
    run = run_local(application(MemoryInput("live", timestamp="at", history=files, discover_every=0.0), 3))
    assert places(run.collected("sink")) == once(live)


def test_sources_that_are_away_are_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    history, live = Log(steps(3)), Log([{"p0": 100}, *steps(4)])
    history.failures = [ConnectionRefusedError("port 1")]
    live.failures = [ConnectionRefusedError("port 2")]
    live.read_failures = [TimeoutError("slow")]
    live.step()
    run = run_local(
        application(source_of(history, live, begin="latest", of_history={"discover_every": 0.0}), 2)
    )
    assert not places(run.collected("sink")) - once(live, history) - once(live, history)
    assert "port 1" in (said := capsys.readouterr().out)
    assert "port 2" in said


def test_records_that_cannot_be_read() -> None:
    history, live = whole({"a": 10}), whole({"a": 20})
    history.bad, live.bad = {("a", 4)}, {("a", 15)}
    app = application(source_of(history, live), 2, on_error="SKIP")
    letters = app.add_operator("letters", CollectorSink(DeadLetter))
    app.dead_letters(letters.input)
    run = run_local(app)
    assert sorted(row.place for row in run.collected("sink")) == [n for n in range(20) if n not in (4, 15)]
    assert len(run.collected("letters")) == 2


def test_properties_that_do_not_fit(tmp_path: Path) -> None:
    def refused(text: str, **properties: Any) -> None:
        LOGS["live"] = LOGS["history"] = whole({"a": 1})
        given = {"timestamp": "at", "history": MemoryInput("history"), **properties}
        with pytest.raises(ValidationError, match=text):
            run_local(application(MemoryInput("live", **given)))

    refused("positions, or give `timestamp`", timestamp=None)
    refused("`source.history.lateness`", history=MemoryInput("history", lateness="1s", timestamp="at"))
    nested = MemoryInput("history", timestamp="at", history=MemoryInput("history"))
    refused("has none itself", history=nested)
    refused("`source.history.begin`", history=MemoryInput("history", begin="yesterday"))
    refused("must have the columns", history=FileInput(f"{tmp_path}/*.csv", tuple_of_one()))
    refused("`source.history`", history="files")
    lines = SocketInput(port=4040, listen=True)  # what it has when the run begins is next to nothing
    refused("`source.history.until`.*have no end", history=lines)


def tuple_of_one() -> Any:
    import pyarrow as pa

    return pa.schema([pa.field("partition", pa.string())])


def test_a_history_is_shown_without_its_secrets() -> None:
    history = PostgresInput("entries", dsn="postgres://ann:pa55word@db/x", schema=Entry, column="place")
    LOGS["live"] = whole({"a": 1})
    app = application(MemoryInput("live", timestamp="at", history=history))
    source = plan_application(app).logical.operators[0].operator
    assert "pa55word" not in str(shown_properties(source))
    assert "entries" in str(shown_properties(source)["history"])
    assert secret_names(source) == ("history",)


def test_an_application_keeps_its_history(tmp_path: Path) -> None:
    history, live = whole({"a": 50}), whole({"a": 70})
    run_local(application(source_of(history, live)), windows=2, checkpoint=tmp_path)
    with pytest.raises(RidgelineError, match="has begun with a `history`"):
        run_local(application(MemoryInput("live", timestamp="at")), checkpoint=tmp_path)
