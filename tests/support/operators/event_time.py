"""Random streams of records through `Windowed`, and what polars makes of the same records.

A seed says all: windows, lateness, partitions, disorder, equal times, silent and early ended partitions, null
times, changes of the clocks, kills of containers, restarts of the driver.

Polars groups the records that are not late. Which are follows from the definition alone: their windows had
ended by the watermark of the window before, which is computed here anew from what each partition emitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any, NamedTuple

import polars as pl

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, RecordingLevel, State
from ridgeline.api.errors import ContainerAbortError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import Session, Sliding, Windowed, aggregate, session, sliding, tumbling
from ridgeline.testing import CollectorSink, run_local

ZONES = {"Europe/Berlin": (3, 27), "America/New_York": (10, 30), "Australia/Lord_Howe": (4, 3)}
"""Zones, each with a month and day of 2026 just before the clocks change."""
HOUR = 3_600_000_000
NEVER = -math.inf
VALUES = {
    "start": aggregate.window_start(),
    "end": aggregate.window_end(),
    "count": aggregate.count(),
    "sum": aggregate.sum("value"),
    "least": aggregate.min("value"),
    "greatest": aggregate.max("value"),
    "final": aggregate.is_final(),
}
Row = tuple[str, int, int | None]
"""Key, value, and time in microseconds since 1970."""


class Event(NamedTuple):
    key: str
    value: int
    time: datetime | None


class Streams(InputOperator):
    """Emits what it holds for its partition, window by window."""

    events = OutputPort(Event, timestamp="time")
    held: list[list[list[Row]]]
    lateness_seconds: float
    idle_after: float | None = None
    position = State(0)

    def lateness_of(self, port: str) -> float | None:
        return self.lateness_seconds

    def idle_seconds(self) -> float | None:
        return self.idle_after

    def emit_tuples(self) -> None:
        windows = self.held[self.context.partition]
        for key, value, time in windows[self.position]:
            self.events.emit(Event(key, value, None if time is None else as_datetime(time)))
        self.position += 1
        if self.position == len(windows):
            self.finish()


class Dies(Operator):
    """Passes events on, and kills its container in the first attempt at some windows, at some moment."""

    events = InputPort(Event)
    passed = OutputPort(Event)
    kills: dict[int, int]

    @events.process
    def pass_on(self, event: Event) -> None:
        self.passed.emit(event)
        self._die(event.value % 3)

    def end_window(self) -> None:
        self._die(3)

    def _die(self, moment: int) -> None:
        if self.kills.get(self.context.window_id) == moment and not self.context.attempt:
            raise ContainerAbortError("killed")


def as_datetime(time: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)


def microseconds(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@dataclass
class Marks:
    """The watermark by its definition: the least of all partitions that are neither idle nor over."""

    lateness: int
    idle_after: float | None
    lengths: Sequence[int]
    time: float = NEVER
    left: list[float] = field(default_factory=list)
    timed: list[float | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = [NEVER] * len(self.lengths)
        self.forget()

    def forget(self) -> None:
        """New containers wait anew for an idle partition."""
        self.timed = [None] * len(self.lengths)

    def end(self, window: int, times: Sequence[Sequence[int]]) -> None:
        """A window has ended, in which the partitions emitted records of these times."""
        active, idle = list[float](), False
        for number, own in enumerate(times):
            if window >= self.lengths[number] - 1:
                continue
            if own:
                self.left[number] = max(self.left[number], max(own) - self.lateness)
            since = self.timed[number]
            if own or since is None:
                self.timed[number] = since = window
            if self.idle_after is not None and window - since >= self.idle_after:
                idle = True
            else:
                active.append(self.left[number])
        if active:
            self.time = max(self.time, min(active))
        elif not idle:
            self.time = math.inf


@dataclass
class Story:
    """What a seed says."""

    how: Sliding | Session
    zone_days: tuple[str, str, int, int] | None
    """Zone, unit of polars, and days of size and slide."""
    extra: int
    lateness: int
    partitions: int
    middle: int
    idle_after: float | None
    held: list[list[list[Row]]]
    closed: list[float]
    """By window, when windows had ended by then are over for its records."""
    kills: dict[int, int]
    restarts: list[int]
    options: dict[str, Any]
    interleave: int | None


def story(seed: int) -> Story:
    """What a seed says: all streams together have each kind of windows, fault and disorder."""
    random = Random(seed)
    how, zone_days, base, grain = _windows(random)
    width = random.randint(2, 30) * grain
    lateness, extra = random.choice([0, 1, 5, 20]) * grain, random.choice([0, 0, 3]) * grain
    sources, windows = random.choice([1, 1, 2, 3]), random.randint(3, 5)
    lengths = [windows] + [random.randint(1, windows) for _ in range(sources - 1)]
    idle_after = random.choice([None, 1.0, 2.0])
    silent = [random.randrange(windows) if random.random() < 0.4 else windows for _ in range(sources)]
    kills = {random.randrange(windows): random.randrange(4) for _ in range(random.choice([0, 0, 1, 2]))}
    restarts = sorted(random.sample(range(1, windows), random.choice([0, 0, 0, 1])))
    marks = Marks(lateness, idle_after, lengths)
    held: list[list[list[Row]]] = [[] for _ in range(sources)]
    disorder = lateness + random.choice([0, 0, 2, 25]) * grain
    closed, numbers = list[float](), count(1)
    for window in range(windows):
        if window in restarts or window in kills:
            marks.forget()
        over = marks.time - extra
        closed.append(over)
        for partition in range(sources):
            if window >= lengths[partition]:
                continue
            rows = list[Row]()
            for _ in range(random.randint(0, 6) if window <= silent[partition] else 0):
                behind = random.randint(0, max(1, disorder // grain)) * grain
                time = base + window * width + random.randint(0, width // grain) * grain - behind
                if isinstance(how, Session) and over - how.gap < time < over:
                    time = int(over)  # else it might join a session that is over, see the guide
                known = random.random() > 0.03
                rows.append((random.choice("abcde"), next(numbers), time if known else None))
            held[partition].append(rows)
        marks.end(window, [_times(own, window) for own in held])
    options: dict[str, Any] = {}
    if random.random() < 0.4:
        options = random.choice([{"early": 1}, {"early": "2s"}, {"early_count": 2}])
        if not isinstance(how, Session) and random.random() < 0.5:
            options = {**options, "accumulation": "discarding"}
    interleave = random.randrange(100) if idle_after is None and random.random() < 0.3 else None
    shape = random.choice([1, 1, 2, 2, 3, 4, 5]), random.choice([1, 2])
    return Story(
        how,
        zone_days,
        extra,
        lateness,
        *shape,
        idle_after,
        held,
        closed,
        kills,
        restarts,
        options,
        interleave,
    )


def _windows(random: Random) -> tuple[Sliding | Session, tuple[str, str, int, int] | None, int, int]:
    """Windows; zone, unit and days if they have any; a time to begin with and its grain, in microseconds."""
    kind = random.choice(["tumbling", "sliding", "session", "session", "zone", "sliding zone"])
    base, second = microseconds(datetime(2026, 3, 28, 22, tzinfo=UTC)), 1_000_000
    if kind == "session":
        return session(random.choice([3, 10, 30])), None, base, second
    if "zone" not in kind:
        slide, copies = random.choice([5, 60]), random.choice([2, 3, 6]) if kind == "sliding" else 1
        return sliding(slide * copies, slide, offset=random.choice([0, 2])), None, base, second
    zone = random.choice(list(ZONES))
    base, grain = microseconds(datetime(2026, *ZONES[zone], tzinfo=UTC)), random.choice([HOUR // 2, HOUR])
    if kind == "zone" and random.random() < 0.3:
        return tumbling("1w", zone=zone), (zone, "1w", 7, 7), base, grain
    days = random.choice([2, 3]) if kind == "sliding zone" else 1
    return sliding(f"{days}d", "1d", zone=zone), (zone, "1d", days, 1), base, grain


def _times(windows: Sequence[Sequence[Row]], window: int) -> list[int]:
    rows = windows[window] if window < len(windows) else ()
    return [time for _, _, time in rows if time is not None]


def by_polars(told: Story) -> tuple[list[tuple[Any, ...]], int]:
    """The windows of the records, sorted, and how many records are late."""
    rows = [
        (number, *row, told.closed[window])
        for number, (window, row) in enumerate(
            (window, row) for partition in told.held for window, rows in enumerate(partition) for row in rows
        )
    ]
    schema = {
        "number": pl.Int64, "key": pl.String, "value": pl.Int64, "time": pl.Int64, "closed": pl.Float64
    }  # fmt: skip
    frame = pl.DataFrame(rows, schema, orient="row")
    timed = frame.drop_nulls("time")
    if isinstance(told.how, Session):
        kept = timed.filter(pl.col("time") + told.how.gap > pl.col("closed")).sort("key", "time")
        apart = (pl.col("time").diff() >= told.how.gap) | (pl.col("key") != pl.col("key").shift())
        spans = kept.with_columns(apart.fill_null(value=True).cum_sum().alias("span"))
        bounds = [pl.col("time").min().over("span"), (pl.col("time").max() + told.how.gap).over("span")]
        found = spans.with_columns(bounds[0].alias("start"), bounds[1].alias("end"))
    else:
        found = pl.concat(_assigned(told, timed, told.how)).filter(pl.col("end") > pl.col("closed"))
    groups = found.group_by("key", "start", "end").agg(
        pl.len().alias("count"),
        pl.col("value").sum().alias("sum"),
        pl.col("value").min().alias("least"),
        pl.col("value").max().alias("greatest"),
    )
    return sorted(groups.iter_rows()), len(frame) - found["number"].n_unique()


def _assigned(told: Story, timed: pl.DataFrame, how: Sliding) -> list[pl.DataFrame]:
    """The records with the bounds of each window that they are in."""
    if told.zone_days is None:
        first = (pl.col("time") - how.offset) // how.slide * how.slide + how.offset
        starts = [first - number * how.slide for number in range(how.size // how.slide)]
        return [timed.with_columns(start.alias("start"), (start + how.size).alias("end")) for start in starts]
    zone, unit, size, slide = told.zone_days
    days = (
        pl.from_epoch("time", "us").dt.replace_time_zone("UTC").dt.convert_time_zone(zone).dt.truncate(unit)
    )
    bounds = [
        (days.dt.offset_by(f"-{back}d"), days.dt.offset_by(f"{size - back}d"))
        for back in range(0, size, slide)
    ]
    return [
        timed.with_columns(start.dt.epoch("us").alias("start"), end.dt.epoch("us").alias("end"))
        for start, end in bounds
    ]


def by_windowed(told: Story) -> tuple[list[tuple[Any, ...]], int, int]:
    """As `by_polars`, of Ridgeline; late records once as counted, and once as collected."""
    app = Application(
        "events", window="1s", metrics_recording_level=RecordingLevel.OFF, time_ahead_limit="365d"
    )  # times of any day, whatever today is
    streams = Streams(held=told.held, lateness_seconds=told.lateness / 1e6, idle_after=told.idle_after)
    source = app.add_operator("source", streams, partitions=len(told.held))
    operator = Windowed(told.how, key="key", values=VALUES, lateness=told.extra / 1e6, **told.options)
    app.add_operator("windowed", operator, partitions=told.partitions)
    if told.kills:
        dies = app.add_operator("dies", Dies(kills=told.kills), partitions=told.middle)
        app.add_stream("events", source.events, dies.events)
        app.add_stream("passed", dies.passed, operator.input)
    else:
        app.add_stream("passed", source.events, operator.input)
    app.add_stream("results", operator.output, app.add_operator("sink", CollectorSink()).input)
    collects = told.middle == 2
    if collects:
        app.add_stream("late", operator.late, app.add_operator("late", CollectorSink(Event)).input)
    storage, rows, late, collected = MemoryStorage(), list[Any](), 0, 0
    for begin, end in zip([0, *told.restarts], [*told.restarts, None], strict=True):
        windows = None if end is None else end - begin
        run = run_local(app, checkpoint=storage, windows=windows, interleave=told.interleave)
        rows += run.collected("sink")
        collected += len(run.collected("late")) if collects else 0
        late += sum(row["lateRecords"] for row in run.watch.watermarks()["operators"])
    return sorted(_final(told, rows)), late, collected if collects else late


def _final(told: Story, rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The last result of each window; if discarding, all of it added up."""
    listed = [
        (row["key"], microseconds(row["start"]), microseconds(row["end"]), *list(row.values())[3:])
        for row in rows
    ]
    if told.options.get("accumulation") != "discarding":
        return [row[:-1] for row in listed if row[-1]]
    found: dict[Any, tuple[Any, ...]] = {}
    for *window, number, total, least, greatest, _ in listed:
        known = found.get(tuple(window), (0, 0, least, greatest))
        found[tuple(window)] = (
            known[0] + number, known[1] + total, min(known[2], least), max(known[3], greatest)
        )  # fmt: skip
    return [(*window, *values) for window, values in found.items()]


def check(seed: int) -> tuple[Story, int]:
    """Run one stream; returns its story and how many records were late. Raises AssertionError."""
    told = story(seed)
    expected, late = by_polars(told)
    found, counted, collected = by_windowed(told)
    assert found == expected, f"seed {seed}"
    assert (counted, collected) == (late, late), f"seed {seed}"
    return told, late
