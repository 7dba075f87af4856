"""Both halves of an application of two regions, which run in process one after the other; and them joined."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.engine.driver.run.options import Outcome
from ridgeline.observe.watch import Watch
from ridgeline.operators import QueueInput, QueueOutput
from ridgeline.plan.region import IDS, PortRef, QueueEdge, Region
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.regions.region_run import RegionRun
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, SteppingClock, run_local

START = 1_700_000_000.0
EDGE = QueueEdge(
    "orders",
    PortRef("divide", "passed"),
    "orders_queue",
    "shop",
    "orders_to_mail",
    "mail",
    (PortRef("sink", "input"),),
    "1h",
)


class Order(NamedTuple):
    customer: int
    number: int


class PassOn(Operator):
    orders = InputPort(Order, key="customer")
    passed = OutputPort(Order)

    @orders.process
    def on(self, order):
        self.passed.emit(order)


def in_windows(count, a_window=20):
    rows = [Order(number % 7, number) for number in range(count)]
    found = []
    for start in range(0, count, a_window):
        found += [*rows[start : start + a_window], END_WINDOW]
    return found


def shop(path, windows=10, partitions=3, **properties):
    app = Application("shop")
    source = app.add_operator("source", ListInput(Order, in_windows(20 * windows)))
    divide = app.add_operator("divide", PassOn(), partitions=partitions)
    queue = app.add_operator("orders_queue", QueueOutput(path=path, **properties))
    app.add_stream("all", source.output, divide.orders)
    app.add_stream("orders", divide.passed, queue.input)
    return app


def mail(path, partitions=2):
    app = Application("shop")
    app.cut = lambda graph: replace(graph, first_id=4 * IDS)
    orders = app.add_operator(
        "orders_to_mail", QueueInput(path=path, schema=Order, when_missing="wait"), partitions=partitions
    )
    sink = app.add_operator("sink", CollectorSink(Order))
    app.add_stream("orders", orders.output, sink.input)
    return app


class Half:
    """A region that has run several times on its checkpoint: all events of these runs, and their figures."""

    def __init__(self, clock):
        self.watch = Watch(clock.wall)
        self.events = []
        self.windows_committed = 0

    def add(self, run):
        self.plan = run.plan
        self.events += run.events
        self.windows_committed += run.windows_committed
        for event in run.events:
            self.watch.observe(event)

    def region(self, name, number, *, reads=(), writes=(), ended=True, error=None):
        """It as a region of an application."""
        names = [one.name for one in self.plan.logical.operators]
        operators = tuple(name for name in names if name not in {EDGE.writer, EDGE.reader})

        def launch(_):
            raise AssertionError

        region = Region(name, operators, reads=reads, writes=writes)
        made = RegionRun(region, number, self.plan, self.watch, launch)
        made.outcome = Outcome(self.windows_committed, self.windows_committed - 1, ended, "")
        made.error = error
        return made


def halves_of(tmp_path):
    """Both halves of an application on a stepping clock.

    The writer writes four windows, then two, then four; the reader reads after the first and the second time.
    """
    path, clock = str(tmp_path / "queue"), SteppingClock()
    first, second = Half(clock), Half(clock)
    for count in (4, 2, None):
        first.add(run_local(shop(path), checkpoint=tmp_path / "shop", clock=clock, windows=count))
        if count is not None:
            second.add(run_local(mail(path), checkpoint=tmp_path / "mail", clock=clock, windows=1))
    return first, second, Path(path), clock


def joined(halves, **options):
    first, second, _, clock = halves
    writer = first.region("shop", 0, writes=(EDGE,))
    reader = second.region("mail", 4, reads=(EDGE,), ended=False, **options)
    watch = JoinedWatch([writer, reader], clock.wall)
    watch.replay({"shop": first.events, "mail": second.events})
    return watch
