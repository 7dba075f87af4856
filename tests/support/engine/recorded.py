"""The application of recorded checkpoints, with all kinds of state, and what it must put out.

Checkpoints in `recorded-*.tar.gz` name this module and its classes: none of them may move.
"""

import dataclasses
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    ListState,
    Metric,
    Module,
    Operator,
    OutputPort,
    State,
    Timers,
)
from ridgeline.operators import (
    Delay,
    FileOutput,
    FileReplayInput,
    Map,
    SumKeyVal,
    Windowed,
    aggregate,
    tumbling,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOWS = 24
STOPPED_AFTER = 14
"""So many windows are in the recorded checkpoints."""
PER_WINDOW = 20
KEYS = 11
RARE, OFTEN = 100, 101
"""Keys of which one comes again long after its time to live, the other one well within it."""
STEP = timedelta(seconds=1.7)
END = START + timedelta(milliseconds=100 * WINDOWS * PER_WINDOW)
GROUP = 4
"""Windows in an application window of `volumes`."""
SLIDE = 2
"""Windows from one result of `recent` to the next."""
LINES = 2 * WINDOWS - 1


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Reading(NamedTuple):
    key: int
    number: int
    time: datetime


class Found(NamedTuple):
    kind: str
    key: int
    value: int


class Amount(NamedTuple):
    key: int
    value: int


class Line(NamedTuple):
    number: int
    text: str


class Pair(NamedTuple):
    last: int
    next: int


class Tag(NamedTuple):
    key: int
    level: Level


@dataclasses.dataclass
class Account:
    level: Level
    last: Amount
    numbers: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Place:
    window: int = 0
    level: Level = Level.LOW


def key_of(number: int) -> int:
    """The key of a reading: mostly in turn, at the end of some windows a rare one."""
    window, place = divmod(number, PER_WINDOW)
    if place == PER_WINDOW - 1 and window % 8 == 3:
        return RARE
    if place == PER_WINDOW - 1 and window % 2 == 0:
        return OFTEN
    return number % KEYS


def time_of(number: int) -> datetime:
    return START + timedelta(milliseconds=100 * number)


class Readings(InputOperator):
    """So many readings a window; every fifth comes twice."""

    output = OutputPort(Reading, timestamp="time", lateness="0s")
    windows: int = WINDOWS
    place = State(Place())

    def emit_tuples(self) -> None:
        window = self.place.window
        for number in range(PER_WINDOW * window, PER_WINDOW * (window + 1)):
            for _ in range(2 if number % 5 == 0 else 1):
                self.output.emit(Reading(key_of(number), number, time_of(number)))
        self.place = Place(window + 1, Level.HIGH if window % 2 else Level.LOW)
        if window + 1 == self.windows:
            self.finish()


class Once(Operator):
    readings = InputPort(Reading, key="key")
    new = OutputPort(Reading)
    seen = KeyedState(bool, key=tuple, default=False, moves_by=lambda key: key[0])

    @readings.process
    def sift(self, reading: Reading) -> None:
        if not self.seen[reading.key, reading.number]:
            self.seen[reading.key, reading.number] = True
            self.new.emit(reading)


class Clean(Module):
    """Each reading once."""

    readings = InputPort(Reading)
    clean = OutputPort(Reading)

    def populate(self, app: Application) -> None:
        once = app.add_operator("once", Once(), partitions=2)
        self.readings.connect(once.readings)
        self.clean.connect(once.new)


class Watch(Operator):
    """Has a state of each kind by key, and refuses some readings."""

    readings = InputPort(Reading, key="key")
    found = OutputPort(Found)
    taken = Metric(0, kind="counter")
    sums = KeyedState(int, key=int, default=0)
    squares = KeyedState(int, key=tuple, moves_by=lambda key: key[0])
    accounts = KeyedState(Account, key=int)
    visits = KeyedState(int, key=int, default=0, ttl="7s", ttl_by="record")
    tags = ListState(Tag, moves_by=lambda tag: tag.key)
    quiet = Timers(key=int, by="record")

    @readings.process
    def take(self, reading: Reading) -> None:
        key, number = reading.key, reading.number
        if is_refused(number):
            raise ValueError(f"{number} is refused")
        self.taken += 1
        if key >= KEYS:
            self.visits[key] += 1
            self.found.emit(Found("visit", key, self.visits[key]))
        if key not in self.sums and key < KEYS:
            self.quiet.set(key, reading.time + STEP)
        self.sums[key] += number
        self.found.emit(Found("sum", key, self.sums[key]))
        self.squares[key, number] = number * number
        if (earlier := number - 5 * KEYS) >= 0:
            self.found.emit(Found("square", key, self.squares.get((key, earlier), -1)))
        before = self.accounts.get(key)
        numbers = [*(before.numbers if before else []), number][-3:]
        level = Level.HIGH if number % 2 else Level.LOW
        self.accounts[key] = Account(level, Amount(key, number), numbers)
        if before is not None:
            high = before.level is Level.HIGH
            self.found.emit(Found("account", key, sum(before.numbers) + 1000 * before.last.value + high))
        if number % 4 == 0:
            self.tags.append(Tag(key, level))
            mine = sum(tag.key == key and tag.level is Level.LOW for tag in self.tags)
            self.found.emit(Found("tags", key, mine))

    @quiet.expired
    def fire(self, key: int, when: datetime) -> None:
        self.found.emit(Found("quiet", key, round((when - START).total_seconds() * 10)))
        if when + STEP < END:
            self.quiet.set(key, when + STEP)


class Step(Operator):
    """One step of a loop."""

    pairs = InputPort(Pair)
    steps = OutputPort(Pair)

    @pairs.process
    def step(self, pair: Pair) -> None:
        if pair.next < 7000:
            self.steps.emit(Pair(pair.next, pair.last + pair.next))


class Audit(Operator):
    """What a change adds to the running application."""

    readings = InputPort(Reading)
    seen = State(Amount(0, 0))

    @readings.process
    def see(self, reading: Reading) -> None:
        self.seen = Amount(reading.key, self.seen.value + 1)


def is_refused(number: int) -> bool:
    return number % 13 == 5 and key_of(number) < KEYS


def write_lines(folder: Path) -> None:
    """The file that the application reads."""
    rows = [f"{number},line {number}\n" for number in range(LINES)]
    (folder / "lines.csv").write_text("number,text\n" + "".join(rows))


def application(folder: str) -> Application:
    """It reads `lines.csv` in a folder, and writes to the folder `outputs` in it."""
    app = Application("recorded", window="500ms", snapshot_interval=4, recovery_attempts=20)
    readings = app.add_operator("readings", Readings())
    source = FileReplayInput(path=f"{folder}/lines.csv", format="csv", schema=Line, rows_per_window=2)
    lines = app.add_operator("lines", source)
    clean = app.add_module("clean", Clean())
    watch = app.add_operator("watch", Watch(), partitions=2, on_error="SKIP")
    amounts = app.add_operator("amounts", Map(lambda one: Amount(one.key, one.number), schema=Amount))
    grouped = {"partitions": 2, "application_window_count": GROUP}
    volumes = app.add_operator("volumes", SumKeyVal(cumulative=True), **grouped)
    recent = app.add_operator("recent", SumKeyVal(), slide_by_window_count=SLIDE, **grouped)
    values = {"start": aggregate.window_start(), "count": aggregate.count(), "sum": aggregate.sum("number")}
    spans = app.add_operator("spans", Windowed(tumbling("3s"), key="key", values=values), partitions=2)
    step = app.add_operator("step", Step())
    delay = app.add_module("delay", Delay(Pair, first_window=[Pair(0, 1)]))

    def file(name: str, roll_seconds: float, format: str = "jsonl", **attributes: int):
        path = f"{folder}/outputs/{name}"
        made = FileOutput(path=path, format=format, roll_seconds=roll_seconds)
        return app.add_operator(f"{name}_files", made, **attributes).input

    app.add_stream("readings", readings.output, clean.readings)
    app.add_stream("clean", clean.clean, watch.readings, amounts.data, spans.input)
    app.add_stream("amounts", amounts.output, volumes.data, recent.data)
    app.add_stream("again", delay.output, step.pairs)
    app.add_stream("steps", step.steps, delay.input, file("steps", 10.0))
    app.add_stream("found", watch.found, file("found", 1000.0))
    app.add_stream("volumes", volumes.sum, file("volumes", 0.3))
    app.add_stream("recent", recent.sum, file("recent", 1000.0))
    app.add_stream("spans", spans.output, file("spans", 0.0, "parquet"))
    app.add_stream("lines", lines.output, file("lines", 1000.0, application_window_count=GROUP))
    refused = FileOutput(path=f"{folder}/outputs/refused", format="jsonl", roll_seconds=1000.0)
    app.dead_letters(refused)
    return app


def expected() -> dict[str, Counter]:
    """The rows of each output, computed by plain loops over all numbers."""
    found = Counter()
    sums, numbers, lows, visits = Counter(), defaultdict(list), Counter(), Counter()
    volumes, grouped, spans = Counter(), Counter(), defaultdict(list)
    refused = Counter()
    for number in range(WINDOWS * PER_WINDOW):
        key = key_of(number)
        grouped[key] += number
        spans[key, 100 * number // 3000].append(number)
        if number % (GROUP * PER_WINDOW) == GROUP * PER_WINDOW - 1:
            group = number // (GROUP * PER_WINDOW)
            keys = {key_of(one) for one in range(group * GROUP * PER_WINDOW, number + 1)}
            volumes.update((key, grouped[key]) for key in keys)
        if is_refused(number):
            refused[number] += 1
            continue
        if key >= KEYS:
            visits[key] += 1
            found["visit", key, visits[key] if key == OFTEN else 1] += 1
        if not numbers[key] and key < KEYS:
            when = time_of(number) + STEP
            while True:
                found["quiet", key, round((when - START).total_seconds() * 10)] += 1
                if when + STEP >= END:
                    break
                when += STEP
        sums[key] += number
        found["sum", key, sums[key]] += 1
        if number >= 5 * KEYS:
            earlier = number - 5 * KEYS
            has = earlier in numbers[key]
            found["square", key, earlier * earlier if has else -1] += 1
        if numbers[key]:
            last = numbers[key][-1]
            found["account", key, sum(numbers[key][-3:]) + 1000 * last + last % 2] += 1
        numbers[key].append(number)
        if number % 4 == 0:
            lows[key] += 1
            found["tags", key, lows[key]] += 1
    steps, pair = Counter(), (0, 1)
    while pair[1] < 7000:
        pair = (pair[1], sum(pair))
        steps[pair] += 1
    of_spans = {(key, 3 * span, len(some), sum(some)): 1 for (key, span), some in spans.items()}
    return {
        "found": found,
        "volumes": volumes,
        "spans": Counter(of_spans),
        "steps": steps,
        "refused": refused,
        "recent": recent(),
        "lines": Counter((number, f"line {number}") for number in range(LINES)),
    }


def recent() -> Counter:
    """From `GROUP` windows on, every `SLIDE` windows the sums by key of the last `GROUP` ones."""
    found = Counter()
    for end in range(GROUP, WINDOWS + 1, SLIDE):
        sums = Counter()
        for number in range(PER_WINDOW * (end - GROUP), PER_WINDOW * end):
            sums[key_of(number)] += number
        found.update(sums.items())
    return found
