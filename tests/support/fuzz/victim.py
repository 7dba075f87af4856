"""An application with all ports that Ridgeline listens on, for tests that attack them.

`python -m support.fuzz.victim FOLDER`: STRAM and its slots speak TLS, the web service in the clear too, and
an operator takes lines. It prints a line of JSON once it runs, and ends when its standard input does.
All is the engine's own but Spark, for which processes stand in.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.api.clock import SystemClock
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Peer
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.exchange.tls import Certificate
from ridgeline.measure.events import WindowCommitted
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.operators import SocketInput
from ridgeline.operators._staged_source import Line
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from ridgeline.service.tls.serving import ServedTls
from support.engine import slot_platform
from support.engine.certificates import certificate_and_key
from support.engine.slot_platform import ProcessSlots, run_in_processes
from support.ports import free_port
from support.service.certificates import Authority

CERTIFICATE = Certificate(*certificate_and_key())
TOKEN = "the-token-of-a-user-0123456789"


class Number(NamedTuple):
    value: int


class Numbers(InputOperator):
    """A number in each window, as long as it runs."""

    output = OutputPort(Number)
    count = State(0)

    def emit_tuples(self) -> None:
        self.output.emit(Number(self.count))
        self.count += 1


class Sum(Operator):
    """Adds numbers up."""

    numbers = InputPort(Number, key="value")
    total = State(0)

    @numbers.process
    def add(self, number: Number) -> None:
        self.total += number.value


class Count(Operator):
    """Counts lines."""

    lines = InputPort(Line)
    total = State(0)

    @lines.process
    def take(self, _line: Line) -> None:
        self.total += 1


def application(port: int) -> Application:
    app = Application("victim", window="50ms")
    numbers = app.add_operator("numbers", Numbers())
    lines = app.add_operator("lines", SocketInput(port=port, listen=True))
    total = app.add_operator("total", Sum(), partitions=2)
    app.add_stream("numbers", numbers.output, total.numbers)
    app.add_stream("lines", lines.output, app.add_operator("count", Count()).lines)
    return app


class Watched:
    """What the service and the test see of the run."""

    def __init__(self, folder: Path, lines: int) -> None:
        self.watch = Watch(SystemClock().wall)
        self.folder, self.lines = folder, lines
        self.said = False
        self.stram = ""
        self.joined: dict[int, int] = {}

    def started(self, run: Any) -> None:
        """Serve the run: in the clear and by TLS."""
        plan = run.run.plan
        info = {"user": "ann", "version": "0", "master": "local"}
        self.watch.observe(planned_event(plan, at=SystemClock().wall(), application_id="v-1", info=info))
        self.apps = [create_app(self.watch, plan, token=TOKEN) for _ in range(2)]
        for app in self.apps:
            app.state.run = run.run
        folder = Path(tempfile.mkdtemp())
        signed = Authority(folder).sign("web")
        by_tls = ServedTls(signed.certificate, signed.key_file)
        self.servers = [WebServer(self.apps[0]), WebServer(self.apps[1], tls=by_tls)]

    def seen(self, run: Any, event: Any) -> None:
        run.events.clear()  # else it grows by what the test's platform keeps
        run.claimed.clear()
        self.watch.observe(event)
        if isinstance(event, SlotEvent) and event.kind in {"joined", "restarted"}:
            self.joined[event.slot] = event.pid
        if isinstance(event, WindowCommitted) and not self.said:
            self.said = True
            self.say()

    def say(self) -> None:
        """One line with all that an attacker could know, and more."""
        ports = {
            "web": self.servers[0].port,
            "web_tls": self.servers[1].port,
            "lines": self.lines,
            "stram": self.stram,
        }
        print(json.dumps({**ports, "slots": self.joined, **asdict(CERTIFICATE), "token": TOKEN}))
        sys.stdout.flush()


class Places(ProcessSlots):
    """Slots that listen on ports. `watched` gets STRAM's address."""

    listen = Listen(unix=False, host="127.0.0.1", certificate=CERTIFICATE)
    watched: Watched

    def open_network(self) -> Sockets:
        network = Sockets(Peer(STRAM, self._epoch), self.listen, SystemClock())
        self.watched.stram = network.address
        return network


def main(folder: str) -> int:
    """Run until standard input ends."""
    logging.basicConfig(filename=f"{folder}/log", level=logging.INFO)
    lines = free_port()
    watched = Watched(Path(folder), lines)
    Places.watched = watched
    slot_platform.ProcessSlots = Places  # type: ignore[misc]
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    run_in_processes(
        application(lines),
        f"{folder}/checkpoint",
        places=2,
        stop=stop,
        seen=watched.seen,
        started=watched.started,
    )
    for server in watched.servers:
        server.close()
    print(json.dumps({"ended": "in order"}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
