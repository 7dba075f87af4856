"""A tiny application that ran in process, watched; a service for it; and an HTTP client of the service."""

import http.client
import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ridgeline import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Metric,
    Operator,
    OutputPort,
    State,
    metric,
)
from ridgeline.measure.events import ApplicationEnded, ApplicationPlanned, WindowCommitted
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.plan.planner import plan_application
from ridgeline.service.http.apex import logical_plan
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from ridgeline.testing import CollectorSink, SteppingClock, run_local
from support.waiting import PATIENCE_SECONDS

START = datetime(2026, 1, 1, tzinfo=UTC)
BASE = "/ws/v2/stram"


class Payment(NamedTuple):
    account: int
    cents: int
    at: datetime


class Payments(InputOperator):
    output = OutputPort(Payment, timestamp="at")

    windows: int = 5
    url: str = "jdbc:postgresql://ann:hunter2@db/sales"
    password: str = "hunter2"
    limit: float = float("inf")

    position = State(0)

    def emit_tuples(self) -> None:
        at = self.context.clock.now() - timedelta(seconds=3)
        for account in range(4):
            self.output.emit(Payment(account, 0 if account == 3 else 10, at))
        self.position += 1
        if self.position == self.windows:
            self.finish()

    def progress(self) -> tuple[float, float | None]:
        return self.position * 4, (self.windows - self.position) * 4


class Balances(Operator):
    payments = InputPort(Payment, key="account")
    balances = OutputPort(Payment, timestamp="at")
    rejected = OutputPort(Payment, error=True)

    options: dict = {"user": "ann", "secret": "hunter2"}  # noqa: RUF012  a property

    totals = KeyedState(int, default=0)
    taken = Metric(0, kind="counter", unit="cents", help="What was paid,\nto \\ from all accounts.")

    @metric(aggregate="max", by_partition=True, help="Accounts of a partition.")
    def accounts(self) -> int:
        return len(list(self.totals))

    @payments.process
    def add(self, payment: Payment) -> None:
        if payment.cents == 0:
            self.rejected.emit(payment)
        else:
            self.totals[payment.account] += payment.cents
            self.taken += payment.cents
            self.balances.emit(payment)


def payments(windows=5, window="1s") -> Application:
    app = Application("payments", window=window)
    source = app.add_operator("source", Payments(windows=windows))
    balances = app.add_operator("balances", Balances(), partitions=2)
    sink = app.add_operator("sink", CollectorSink(Payment))
    app.add_stream("payments", source.output, balances.payments)
    app.add_stream("balances", balances.balances, sink.input)
    return app


def events_of(app, windows=None) -> tuple:
    """The plan of an application and the events of its run, on a clock that advances a second a window."""
    plan = plan_application(app, {}, {})
    run = run_local(app, clock=SteppingClock(START), windows=windows)
    events = [event for event in run.events if not isinstance(event, (ApplicationPlanned, ApplicationEnded))]
    begin = planned_event(
        plan,
        at=START.timestamp(),
        application_id="payments-1",
        info={"user": "ann", "version": "0.1.0", "master": "local"},
    )
    return plan, [replace(begin, logical=logical_plan(plan.logical)), *events]


class Now:
    """A clock that shows the time that was set last."""

    def __init__(self) -> None:
        self.seconds = START.timestamp()

    def __call__(self) -> float:
        return self.seconds


def watched(app=None, *, until=None, windows=None):
    """A watch of the run up to its `until`-th commit, the plan, the events left, and the watch's clock."""
    plan, events = events_of(app or payments(), windows)
    now = Now()
    watch = Watch(now)
    rest = list(events)
    feed(watch, now, rest.pop(0))
    committed = 0
    while rest and (until is None or committed < until):
        committed += isinstance(rest[0], WindowCommitted)
        feed(watch, now, rest.pop(0))
    return watch, plan, rest, now


def feed(watch, now, *events):
    for event in events:
        now.seconds = max(now.seconds, event.at)
        watch.observe(event)


class Client:
    def __init__(self, url, token=None):
        self.host, _, port = url.removeprefix("http://").rpartition(":")
        self.port = int(port)
        self.token = token

    def ask(self, path, method="GET", headers=None):
        """Status, headers and body."""
        headers = dict(headers or {})
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path, status=200):
        """The JSON below the base path; NaN and Infinity are not accepted."""
        got, headers, body = self.ask(BASE + path)
        assert got == status, body
        assert headers["content-type"] == "application/json"
        return json.loads(body, parse_constant=lambda text: (_ for _ in ()).throw(AssertionError(text)))


@contextmanager
def serving(watch, plan, **options):
    app = create_app(watch, plan, **options)
    server = WebServer(app)
    try:
        client = Client(server.url, server.token)
        client.app = app
        yield client
    finally:
        server.close()
