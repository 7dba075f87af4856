"""Random edits of an application that runs, and what it must give then: a computation in plain Python.

The application is a tree: numbers, and operators that each read the numbers or another operator's output.
Collectors read them all. What an operator emits in a window does not depend on the order of its tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
    SetProperty,
)
from ridgeline.plan.spec.writer import spec_of_operator
from ridgeline.testing import CollectorSink

KEYS = 11
MARK = 99
"""The key of marks."""
MOST_PARTITIONS = 5
WRAP = 2**61 - 1
"""Values are taken modulo it: sums of sums of sums outgrow 64 bits in some thousand windows."""
Collector = Callable[[str], Operator]


def collector(_name: str) -> Operator:
    """What reads an operator's output, by its name."""
    return CollectorSink(Number)


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """`per_window` numbers a window, counted from 1; and a `mark` unless that is 0."""

    output = OutputPort(Number)
    per_window: int = 10
    windows: int = 20
    mark: int = 0

    count = State(0)
    window = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count + 1, self.count + self.per_window + 1):
            self.output.emit(Number(number % KEYS, number))
        if self.mark:
            self.output.emit(Number(MARK, self.mark))
        self.count += self.per_window
        self.window += 1
        if self.window == self.windows:
            self.finish()


class Sums(Operator):
    """Running sums by key, of the keys that a window has."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    factor: int = 1

    sums = KeyedState(int, key=int, default=0)
    seen = KeyedState(bool, key=int, scope="window")

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] = (self.sums[number.key] + self.factor * number.value) % WRAP
        self.seen[number.key] = True

    def end_window(self) -> None:
        for key in list(self.seen):
            self.output.emit(Number(key, self.sums[key]))


class Doubled(Sums):
    """Twice the running sums, over the same state."""

    def end_window(self) -> None:
        for key in list(self.seen):
            self.output.emit(Number(key, 2 * self.sums[key] % WRAP))


class Scaled(Operator):
    """Values times a factor."""

    input = InputPort(Number)
    output = OutputPort(Number)
    factor: int = 1

    @input.process
    def scale(self, number: Number) -> None:
        self.output.emit(Number(number.key, self.factor * number.value % WRAP))


class Spans(Operator):
    """Sums by key of an application window, beside what came before it."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    factor: int = 1

    before = KeyedState(int, key=int, default=0)
    now = KeyedState(int, key=int, default=0, scope="window")

    @input.process
    def add(self, number: Number) -> None:
        self.now[number.key] = (self.now[number.key] + self.factor * number.value) % WRAP

    def end_window(self) -> None:
        for key, value in list(self.now.items()):
            self.output.emit(Number(key, (self.before[key] + value) % WRAP))
            self.before[key] = value


_KINDS: Sequence[type[Operator]] = (Sums, Doubled, Scaled, Spans)


@dataclass
class Node:
    """An operator as plain Python has it."""

    kind: str
    factor: int
    source: str
    stream: str
    span: int = 1
    sums: dict[int, int] = field(default_factory=dict)
    now: dict[int, int] = field(default_factory=dict)

    def run(self, window: int, given: Iterable[tuple[int, int]], *, last: bool) -> list[tuple[int, int]]:
        """What it emits in a window. The last one ends application windows too."""
        if self.kind == "Scaled":
            return [(key, self.factor * value % WRAP) for key, value in given]
        if self.kind == "Spans":
            for key, value in given:
                self.now[key] = (self.now.get(key, 0) + self.factor * value) % WRAP
            if (window + 1) % self.span and not last:
                return []
            found = [(key, (self.sums.get(key, 0) + value) % WRAP) for key, value in self.now.items()]
            self.sums |= self.now
            self.now = {}
            return found
        touched: dict[int, None] = {}
        for key, value in given:
            self.sums[key] = (self.sums.get(key, 0) + self.factor * value) % WRAP
            touched[key] = None
        return [(key, self.sums[key] * (2 if self.kind == "Doubled" else 1) % WRAP) for key in touched]


class Model:
    """The application in plain Python, as edits leave it."""

    def __init__(self) -> None:
        self.per_window, self.count, self.mark = 10, 0, 0
        self.numbers = "numbers"
        """The name of its stream."""
        self.nodes: dict[str, Node] = {
            "sums": Node("Sums", 1, "numbers", "s_sums"),
            "spans": Node("Spans", 3, "sums", "s_spans", span=2),
            "scaled": Node("Scaled", 2, "numbers", "s_scaled"),
        }
        self.collectors = {"c_numbers": "numbers", **{f"c_{name}": name for name in self.nodes}}
        self.expected: dict[str, dict[int, Counter[tuple[int, int]]]] = {}

    def run(self, window: int, *, last: bool = False) -> None:
        """One window."""
        given = [
            (number % KEYS, number) for number in range(self.count + 1, self.count + self.per_window + 1)
        ]
        given += [(MARK, self.mark)] if self.mark else []
        self.count += self.per_window
        out = {"numbers": given}
        left = dict(self.nodes)
        while left:
            for name, node in list(left.items()):
                if node.source in out:
                    out[name] = left.pop(name).run(window, out[node.source], last=last)
        for name, source in self.collectors.items():
            self.expected.setdefault(name, {})[window] = Counter(out[source])

    def make(self, edits: Sequence[Edit]) -> None:  # noqa: C901  one case for each kind
        """What edits do."""
        for edit in edits:
            match edit:
                case SetProperty("numbers", "mark", value):
                    self.mark = value
                case SetProperty("numbers", _, value):
                    self.per_window = value
                case SetProperty(name, _, value):
                    self.nodes[name].factor = value
                case AddOperator(name, spec) if name.startswith("c_"):
                    self.collectors[name] = ""
                case AddOperator(name, spec):
                    self.nodes[name] = _node(spec)
                case RemoveOperator(name):
                    self.nodes.pop(name, None)
                    self.collectors.pop(name, None)
                case ReplaceOperator(name, spec):
                    old, new = self.nodes[name], _node(spec)
                    new.source, new.stream, new.sums = old.source, old.stream, old.sums
                    self.nodes[name] = new
                case RenameOperator(name, new):
                    self.nodes = {new if one == name else one: node for one, node in self.nodes.items()}
                    self._join({name: new})
                case AddStream(name, source, sinks):
                    self._stream(source.partition(".")[0], name)
                    for sink in sinks:
                        self._read(sink, source.partition(".")[0])
                case AddSink(stream, sink):
                    self._read(sink, self.source_of(stream))

    def source_of(self, stream: str) -> str:
        """The operator of a stream."""
        if stream == self.numbers:
            return "numbers"
        return next(name for name, node in self.nodes.items() if node.stream == stream)

    def stream_of(self, source: str) -> str:
        """The stream of an operator."""
        return self.numbers if source == "numbers" else self.nodes[source].stream

    def readers(self, source: str) -> list[str]:
        """Who reads an operator."""
        nodes = [name for name, node in self.nodes.items() if node.source == source]
        return nodes + [name for name, one in self.collectors.items() if one == source]

    def _stream(self, source: str, name: str) -> None:
        if source == "numbers":
            self.numbers = name
        else:
            self.nodes[source].stream = name

    def _read(self, sink: str, source: str) -> None:
        reader = sink.partition(".")[0]
        if reader in self.collectors:
            self.collectors[reader] = source
        else:
            self.nodes[reader].source = source

    def _join(self, renamed: Mapping[str, str]) -> None:
        for node in self.nodes.values():
            node.source = renamed.get(node.source, node.source)
        self.collectors = {name: renamed.get(one, one) for name, one in self.collectors.items()}


def _node(spec: Mapping[str, object]) -> Node:
    properties: dict[str, int] = spec.get("properties", {})  # type: ignore[assignment]
    attributes: dict[str, int] = spec.get("attributes", {})  # type: ignore[assignment]
    kind = str(spec["class"]).rpartition(".")[2]
    return Node(kind, properties["factor"], "", "", attributes.get("application_window_count", 1))


def application(
    windows: int, *, partitions: int = 1, collector: Collector = collector, **attributes: object
) -> Application:
    """The application as it begins; `Model()` is the same in plain Python."""
    # a window holds what it has by hand, however long it takes
    app = Application("edited", window="10ms", window_work="1h", **attributes)
    numbers = app.add_operator("numbers", Numbers(windows=windows))
    sums = app.add_operator("sums", Sums(), partitions=partitions)
    spans = app.add_operator("spans", Spans(factor=3), application_window_count=2)
    scaled = app.add_operator("scaled", Scaled(factor=2), partitions=partitions)
    sinks = {
        name: app.add_operator(f"c_{name}", collector(f"c_{name}"))
        for name in ("numbers", "sums", "spans", "scaled")
    }
    app.add_stream("numbers", numbers.output, sums.input, scaled.input, sinks["numbers"].input)
    app.add_stream("s_sums", sums.output, spans.input, sinks["sums"].input)
    app.add_stream("s_spans", spans.output, sinks["spans"].input)
    app.add_stream("s_scaled", scaled.output, sinks["scaled"].input)
    return app


class RandomEdits:
    """Draws changes that can be made, one after the other; `made` is what they have drawn by kind."""

    def __init__(self, seed: int, collector: Collector | None = None) -> None:
        self._collector = collector
        self.random = Random(seed)
        self.model = Model()
        self.made: Counter[str] = Counter()
        self._count = 0

    def change(self, most: int = 3) -> list[Edit]:
        """The edits of one change."""
        found: list[Edit] = []
        while not found:
            for _ in range(self.random.randint(1, most)):
                edits = self._draw()
                self.model.make(edits)
                found += edits
        self.made.update(type(one).__name__ for one in found)
        return found

    def _draw(self) -> list[Edit]:  # noqa: PLR0911  one case for each kind
        random, model = self.random, self.model
        one = random.choice(sorted(model.nodes))
        kinds = (
            "property attribute partitions partitions numbers add collect remove replace rename rewire stream"
        )
        match random.choice(kinds.split()):
            case "property":
                return [SetProperty(one, "factor", random.randint(1, 5))]
            case "numbers":
                return [SetProperty("numbers", "per_window", random.randint(1, 20))]
            case "attribute":
                return [SetAttribute(one, "recovery_attempts", random.randint(3, 9))]
            case "partitions":
                return [Repartition(one, random.randint(1, MOST_PARTITIONS))]
            case "add" if len(model.nodes) < 6:
                return self._add()
            case "collect" if len(model.collectors) < 9:
                return self._collect(random.choice(["numbers", *sorted(model.nodes)]))
            case "remove" if len(model.nodes) > 2:
                return self._remove(one)
            case "replace":
                return self._replace(one)
            case "rename":
                return [RenameOperator(one, self._name("o"))]
            case "rewire":
                return self._rewire(one)
            case "stream":
                return self._stream(one)
        return []

    def _name(self, start: str) -> str:
        self._count += 1
        return f"{start}_{self._count}"

    def _spec(self, kind: type[Operator]) -> dict[str, object]:
        attributes = {"partitions": self.random.randint(1, MOST_PARTITIONS)}
        if kind is Spans:
            attributes["application_window_count"] = self.random.choice([2, 3])
        return {
            "class": f"{__name__}.{kind.__name__}",
            "properties": {"factor": self.random.randint(1, 5)},
            "attributes": attributes,
        }

    def _collects(self, name: str) -> Mapping[str, object]:
        if self._collector is None:
            return {"class": "ridgeline.testing.CollectorSink"}
        return spec_of_operator(name, self._collector(name))

    def _add(self) -> list[Edit]:
        source = self.random.choice(["numbers", *sorted(self.model.nodes)])
        name, collector = self._name("o"), self._name("c")
        return [
            AddOperator(name, self._spec(self.random.choice(_KINDS))),
            AddOperator(collector, self._collects(collector)),
            AddSink(self.model.stream_of(source), f"{name}.input"),
            AddStream(f"s_{name}", f"{name}.output", (f"{collector}.input",)),
        ]

    def _collect(self, source: str) -> list[Edit]:
        name = self._name("c")
        return [
            AddOperator(name, self._collects(name)),
            AddSink(self.model.stream_of(source), f"{name}.input"),
        ]

    def _remove(self, one: str) -> list[Edit]:
        readers = self.model.readers(one)
        if any(name in self.model.nodes for name in readers):
            return []
        if len(self.model.readers(self.model.nodes[one].source)) == 1:
            return []
        return [RemoveOperator(one), *map(RemoveOperator, readers)]

    def _replace(self, one: str) -> list[Edit]:
        kind = {"Sums": Doubled, "Doubled": Sums, "Scaled": Scaled}.get(self.model.nodes[one].kind)
        return [] if kind is None else [ReplaceOperator(one, self._spec(kind))]

    def _rewire(self, one: str) -> list[Edit]:
        """Let an operator or a collector read another one."""
        model = self.model
        reader = self.random.choice([one, *sorted(model.collectors.keys() - {"c_numbers"})])
        before = model.collectors[reader] if reader in model.collectors else model.nodes[reader].source
        below, found = {reader}, {reader}
        while found:
            found = {name for name, node in model.nodes.items() if node.source in found} - below
            below |= found
        sources = [name for name in ("numbers", *sorted(model.nodes)) if name not in below | {before}]
        if not sources or len(model.readers(before)) == 1:
            return []
        after = model.stream_of(self.random.choice(sources))
        port = f"{reader}.input"
        return [RemoveSink(model.stream_of(before), port), AddSink(after, port)]

    def _stream(self, one: str) -> list[Edit]:
        """Remove a stream, and put another one in its place."""
        sinks = tuple(f"{name}.input" for name in self.model.readers(one))
        name = self._name("s")
        return [RemoveStream(self.model.stream_of(one)), AddStream(name, f"{one}.output", sinks)]


def by_hand(windows: int, made: Mapping[int, Sequence[Sequence[Edit]]], *, finished: bool = True) -> Model:
    """What the windows give, with the changes that were made by the window that begins with them.

    `finished`: the input has come to its end in the last one.
    """
    model = Model()
    for window in range(windows):
        for edits in made.get(window, ()):
            model.make(edits)
        model.run(window, last=finished and window == windows - 1)
    return model


def unlike(model: Model, windows: int, collected: Callable[[str, int], Iterable[object]]) -> list[str]:
    """Where what was collected, by collector and window, is not what plain Python gives."""
    found = []
    for name, by_window in model.expected.items():
        for window in range(windows):
            rows = Counter(
                tuple(row.values() if isinstance(row, dict) else row)  # type: ignore[arg-type]
                for row in collected(name, window)
            )
            wanted = by_window.get(window, Counter())
            if rows != wanted:
                found.append(f"{name} in window {window}: too much {rows - wanted}, missing {wanted - rows}")
    return found
