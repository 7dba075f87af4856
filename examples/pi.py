"""Pi: the first application of the Apex application guide.

Random points, and how many of them lie in a quarter of a circle.

    numbers (RandomEventGenerator) -> points (RoundRobinHashMap: x, y) -> pi (Calculate) -> console

Run it: `ridgeline run examples/pi.py`. Twenty million random numbers from 0 to 30,000 become ten million
points; four times the share of those with x*x + y*y <= 30,000 * 30,000 comes nearer and nearer to 3.14159. It
ends by itself, with an error of about 0.0005 as a rule; the default seed is one of the lucky ones.

What to look at: the numbers depend on the seed only, so every run ends with the same estimate, whatever the
partitions of `numbers` and `pi`: try `--attribute pi.partitions=3`. Another seed: `-D numbers.seed=2`. More
points: `-D numbers.count=200000000`.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ridgeline import Application, InputPort, Operator, OutputPort, State, Unifier
from ridgeline.operators import ConsoleOutput, FileOutput, RandomEventGenerator, RoundRobinHashMap

RADIUS = 30_000


class Point(NamedTuple):
    x: int
    y: int


class Estimate(NamedTuple):
    points: int
    inside: int
    pi: float


class AddEstimates(Unifier):
    """One estimate out of those of all partitions."""

    input = InputPort(Estimate)
    output = OutputPort(Estimate)

    def begin_window(self, window_id: int) -> None:
        self.parts: list[Estimate] = []

    @input.process
    def collect(self, part: Estimate) -> None:
        self.parts.append(part)

    def end_window(self) -> None:
        if self.parts:
            points, inside = sum(part.points for part in self.parts), sum(part.inside for part in self.parts)
            self.output.emit(Estimate(points, inside, 4 * inside / max(1, points)))


class Calculate(Operator):
    """Count the points inside of the circle, and say at the end of each application window what pi must be."""

    data = InputPort(Point)
    result = OutputPort(Estimate, unifier=AddEstimates)

    points = State(0)
    inside = State(0)

    @data.process_batch
    def count(self, batch: pa.RecordBatch) -> None:
        x, y = batch["x"].to_numpy(), batch["y"].to_numpy()
        self.points += len(x)
        self.inside += int(np.count_nonzero(x * x + y * y <= RADIUS * RADIUS))

    def end_window(self) -> None:
        self.result.emit(Estimate(self.points, self.inside, 4 * self.inside / max(1, self.points)))


def application(output: str | None = None) -> Application:
    app = Application("pi", window="50ms")
    generator = RandomEventGenerator(
        minimum=0, maximum=RADIUS, tuples_per_window=200_000, count=20_000_000, seed=12
    )
    numbers = app.add_operator("numbers", generator)
    points = app.add_operator("points", RoundRobinHashMap(keys=["x", "y"], schema=Point))
    pi = app.add_operator("pi", Calculate(), application_window_count=10)
    console = app.add_operator("console", ConsoleOutput(string_format="{points:12,} points   pi = {pi:.6f}"))
    sinks = [console.input]
    if output is not None:
        sinks.append(app.add_operator("store", FileOutput(path=output)).input)
    app.add_stream("random", numbers.integer_data, points.data)
    app.add_stream("points", points.map, pi.data)
    app.add_stream("estimates", pi.result, *sinks)
    return app
