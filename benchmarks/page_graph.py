"""The graph on the page: frames in Chromium while it is zoomed and its figures change.

The alternative draws every operator and stream of the same plan as one picture that is scaled, and moves all
streams, as pages with graphs often do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.testing import NullSink, run_local

OPERATORS = 500
USABLE = 5_000
LAYER = 25
"""Operators side by side."""
FRAME_SECONDS = 0.025
USABLE_SECONDS = 0.05
"""Of a frame with 5,000 operators, all of whose figures change 4 times a second."""
_TWO = 0.36  # of the operators so many read from two others
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")

FRAMES = """async ([frames, pans]) => {
    const {store} = await import(new URL("page/store.js", document.baseURI));
    const canvas = document.querySelector(".graph-canvas");
    const {left, top} = canvas.getBoundingClientRect();
    const changed = (rows, name, most) => Object.fromEntries(
        Object.entries(rows).map(([key, row]) => [key, {...row, [name]: Math.random() * most}]));
    const change = () => { // what is changed is copied, as where a difference is taken in
        const begun = store.state.overview;
        const operators = changed(begun.operators, "tuplesProcessedPSMA", 1000);
        const logical = changed(begun.latency.logical, "latencyMs", 100);
        const overview = {...begun, operators, latency: {...begun.latency, logical}};
        const {windowId, latency, criticalPath, window} = overview;
        store.set({overview, shown: {windowId, latency, criticalPath, window}});
    };
    const timer = setInterval(change, 250);
    const times = [];
    await new Promise((done) => {
        let last = performance.now();
        const frame = (now) => {
            times.push((now - last) / 1000);
            last = now;
            const step = times.length % 80 < 40 ? 12 : -12;
            canvas.dispatchEvent(new WheelEvent("wheel", {
                deltaY: pans ? 2 * step : step, shiftKey: pans, clientX: left + 500, clientY: top + 300,
                bubbles: true, cancelable: true,
            }));
            if (times.length < frames) requestAnimationFrame(frame);
            else done();
        };
        requestAnimationFrame(frame);
    });
    clearInterval(timer);
    return times;
}"""

_PLAIN = """async ([columns, edges, frames]) => {
    const made = (name, attributes, inside) => {
        const one = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
        inside.append(one);
        return one;
    };
    document.body.innerHTML = "<style>@keyframes flow { to { stroke-dashoffset: -20 } }" +
        "path { fill: none; stroke: #888; stroke-width: 2; stroke-dasharray: 5 15;" +
        "animation: flow 1s linear infinite } rect { fill: #fff; stroke: #888 }</style>";
    const picture = made("svg", {width: 1280, height: 700}, document.body);
    const places = new Map();
    columns.forEach((column, x) => column.forEach((name, y) => places.set(name, [x * 270, y * 130])));
    for (const [from, to] of edges) {
        const [[a, b], [c, d]] = [places.get(from), places.get(to)];
        const middle = (a + 196 + c) / 2;
        const curve = `M${a + 196} ${b + 50}C${middle} ${b + 50} ${middle} ${d + 50} ${c} ${d + 50}`;
        made("path", {d: curve}, picture);
    }
    const labels = [];
    for (const [name, [x, y]] of places) {
        made("rect", {x, y, width: 196, height: 104, rx: 7}, picture);
        for (const line of [20, 40, 70]) {
            const text = made("text", {x: x + 10, y: y + line, "font-size": 12}, picture);
            text.textContent = name;
            labels.push(text);
        }
    }
    const change = () => labels.forEach((one) => { one.textContent = Math.random().toFixed(3); });
    const timer = setInterval(change, 250);
    const times = [];
    await new Promise((done) => {
        let last = performance.now();
        const frame = (now) => {
            times.push((now - last) / 1000);
            last = now;
            const zoom = 1 + (times.length % 80 < 40 ? times.length % 80 : 80 - times.length % 80) / 40;
            picture.setAttribute("viewBox", `0 0 ${columns.length * 270 / zoom} ${3300 / zoom}`);
            if (times.length < frames) requestAnimationFrame(frame);
            else done();
        };
        requestAnimationFrame(frame);
    });
    clearInterval(timer);
    return times;
}"""


class Number(NamedTuple):
    """A tuple."""

    value: int


class Numbers(InputOperator):
    """Two numbers a window."""

    output = OutputPort(Number, optional=True)
    count = State(0)

    def emit_tuples(self) -> None:
        """Emit them."""
        for value in range(self.count, self.count + 2):
            self.output.emit(Number(value))
        self.count += 2


class Join(Operator):
    """Passes on what comes at one of its ports."""

    one = InputPort(Number)
    other = InputPort(Number, optional=True)
    output = OutputPort(Number, optional=True)

    @one.process
    def take_one(self, number: Number) -> None:
        """Pass it on."""
        self.output.emit(number)

    @other.process
    def take_other(self, number: Number) -> None:
        """Leave it."""


class Add(Join):
    """Another class, so that branches differ."""


def many_application(operators: int = OPERATORS, window: str = "500ms") -> Application:
    """An application of so many operators in layers, always the same."""
    app = Application(f"many-{operators}", window=window)
    drawn = random.Random(operators)
    layer: list[tuple[str, Any]] = [
        (f"source_{number}", app.add_operator(f"source_{number}", Numbers())) for number in range(5)
    ]
    readers: dict[str, tuple[Any, list[Any]]] = {name: (one.output, []) for name, one in layer}
    left = operators - len(layer) - 1
    while left:
        here = []
        for number in range(left, max(0, left - LAYER), -1):
            name = f"step_{number}"
            one = app.add_operator(name, drawn.choice((Join, Add))())
            sources = drawn.sample(layer, 2 if drawn.random() < _TWO else 1)
            for port, (source, _) in zip((one.one, one.other), sources, strict=False):
                readers[source][1].append(port)
            readers[name] = (one.output, [])
            here.append((name, one))
        left -= len(here)
        layer = here
    end = app.add_operator("end", NullSink())
    readers[layer[0][0]][1].append(end.input)
    for name, (port, sinks) in readers.items():
        if sinks:
            app.add_stream(f"{name}_out", port, *sinks)
    return app


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(_ARGUMENTS))
        yield browser.new_page(viewport={"width": 1280, "height": 800})
        browser.close()


def _frames(given: Round) -> int:
    return 40 if given.quick else 160


def ours(given: Round, operators: int = OPERATORS) -> Figures:
    """The page's own graph of an application that has run; its figures change 4 times a second."""
    from ridgeline.service.http.server import WebServer
    from ridgeline.service.http.web import create_app

    run = run_local(many_application(operators), windows=3)
    server = WebServer(create_app(run.watch, run.plan))
    try:
        with _browser() as page:
            page.goto(f"{server.url}/#/graph")
            page.locator("[data-node]").first.wait_for()
            found = {"": page.evaluate(FRAMES, [_frames(given), False])}
            found["panned: "] = page.evaluate(FRAMES, [_frames(given), True])
            page.get_by_role("button", name="Fit all of it").click()
            found["all of it, panned: "] = page.evaluate(FRAMES, [_frames(given), True])
    finally:
        server.close()
    for name, seconds in found.items():
        given.note(f"{name}{_said(seconds)}")
    return {f"{name}frame seconds": [sum(seconds) / len(seconds)] for name, seconds in found.items()}


def plain(given: Round, operators: int = OPERATORS) -> Figures:
    """Every operator and stream at once, all streams in movement, the picture scaled as a whole."""
    plan = run_local(many_application(operators), windows=1).plan.logical
    names = [one.name for one in plan.operators]
    edges = [(one.source.operator, sink.operator) for one in plan.streams for sink in one.sinks]
    columns = [names[first : first + LAYER] for first in range(0, len(names), LAYER)]
    with _browser() as page:
        page.goto("about:blank")
        seconds = page.evaluate(_PLAIN, [columns, edges, _frames(given)])
        given.note(_said(seconds))
    return {"frame seconds": [sum(seconds) / len(seconds)]}


def _said(seconds: list[float]) -> str:
    """The frames in short."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    parts = (("median", 0.5), ("95 %", 0.95), ("99 %", 0.99), ("longest", 1.0))
    shown = ", ".join(f"{name} {1000 * ordered[round(part * last)]:.1f} ms" for name, part in parts)
    return f"{len(seconds)} frames: mean {1000 * sum(seconds) / len(seconds):.1f} ms, {shown}"


BENCHMARKS = (
    Benchmark(
        name="page-graph",
        title=f"frames of the page's graph, {OPERATORS} operators, against all drawn and moved at once",
        contestants={"ours": ours, "all at once": plain},
        goals=[
            Goal(figure="frame seconds", at_most=FRAME_SECONDS),
            Goal(figure="frame seconds", against="all at once", at_most=1.0),
        ],
        part_of_all=False,
    ),
    Benchmark(
        name="page-graph-5000",
        title=f"the same with {USABLE:,} operators",
        contestants={
            "ours": partial(ours, operators=USABLE),
            "all at once": partial(plain, operators=USABLE),
        },
        goals=[
            Goal(figure="frame seconds", against="all at once", at_most=1.0),
            Goal(figure="frame seconds", at_most=USABLE_SECONDS),
            Goal(figure="panned: frame seconds", at_most=USABLE_SECONDS),
        ],
        budget_seconds=600.0,
        part_of_all=False,
    ),
)
