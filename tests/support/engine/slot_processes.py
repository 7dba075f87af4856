"""Slots as processes of this host, over real sockets, and a STRAM by hand."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

from ridgeline import SystemClock
from ridgeline.api.support.pickling import loads
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Lost, Opened, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.process import plan_distribution
from ridgeline.engine.slot.messages import (
    Committed,
    End,
    Ended,
    Failed,
    Host,
    Joined,
    Reported,
    RunAttempt,
    Unreachable,
    decode,
    encode,
)
from ridgeline.engine.slot.task import join
from ridgeline.engine.state import state_files
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import StateVersion, WindowReport, WindowRequest
from support.waiting import PATIENCE_SECONDS

SECRET = b"0123456789abcdef0123456789abcdef"
_SPAWN = multiprocessing.get_context("fork")


def slot_process(me: Peer, stram: Peer, address: str) -> None:
    """Be a slot, as `slot_task.serve` without Spark."""
    network = Sockets(me, SECRET, Listen(), SystemClock())
    network.connect(stram, address)
    try:
        join(network, stram).serve()
    finally:
        network.close()


class Driver:
    """STRAM. `home`: the slot of each container."""

    def __init__(self, app: Any, folder: str, home: Callable[[int], int]) -> None:
        self.plan = plan_application(app)
        self.specs = container_specs(self.plan)
        self.storage = LocalStorage(folder)
        self.file = plan_distribution.distribute(self.storage, self.specs)
        self.home = {spec.id: home(spec.id) for spec in self.specs}
        self.network = Sockets(Peer(STRAM, 1), SECRET, Listen(), SystemClock())
        self.processes: dict[Peer, Any] = {}
        self.joined: dict[int, Joined] = {}
        self.peers: dict[int, Peer] = {}
        self.states: dict[int, StateVersion] = {}
        self.finished: frozenset[int] = frozenset()
        self.attempts: dict[int, int] = {}
        self.reports: dict[tuple[int, int], dict[int, WindowReport]] = {}
        self.messages: list[Any] = []
        self.lost: list[Lost] = []
        self.collected: list[Any] = []

    def start(self, slot: int, attempt: int = 0) -> Peer:
        peer = Peer(slot, attempt)
        process = _SPAWN.Process(
            target=slot_process, args=(peer, self.network.me, self.network.address), daemon=True
        )
        process.start()
        self.processes[peer] = process
        return peer

    def poll(self, seconds: float = 0.05) -> None:
        for event in self.network.poll(seconds):
            match event:
                case Received(peer):
                    self._receive(peer, decode(event))
                case Lost(peer):
                    self.lost.append(event)
                    if self.peers.get(peer.slot) == peer:
                        del self.peers[peer.slot], self.joined[peer.slot]
                case Opened():
                    pass

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        """Poll until something is true."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.messages
            self.poll(0.05)

    def _receive(self, peer: Peer, message: Any) -> None:
        match message:
            case Joined():
                self.joined[peer.slot], self.peers[peer.slot] = message, peer
            case Reported(reports):
                for report in loads(reports):
                    key = report.window.window_id, report.window.attempt
                    self.reports.setdefault(key, {})[report.window.container] = report
            case Failed() | Unreachable() | Ended():
                self.messages.append(message)

    def host(self) -> None:
        peers = {peer: self.joined[slot].address for slot, peer in self.peers.items()}
        for slot, peer in self.peers.items():
            containers = tuple(number for number, home in self.home.items() if home == slot)
            host = Host(self.storage.uri, self.file, "run", 1, containers, self.home, peers)
            self.network.send(peer, *encode(host))

    def begin(self, window_id: int, *, states: bool) -> tuple[int, int]:
        """Tell all slots to run a window; returns window and attempt."""
        attempt = self.attempts[window_id] = self.attempts.get(window_id, -1) + 1
        for slot, peer in self.peers.items():
            mine = {
                operator.id
                for spec in self.specs
                if self.home[spec.id] == slot
                for operator in spec.operators
            }
            of_mine = {number: version for number, version in self.states.items() if number in mine}
            request = WindowRequest(
                window_id, attempt, 1, finished=self.finished, states=of_mine if states else None
            )
            self.network.send(peer, *encode(RunAttempt(request)))
        return window_id, attempt

    def complete(self, key: tuple[int, int]) -> bool:
        return len(self.reports.get(key, ())) == len(self.specs)

    def commit(self, key: tuple[int, int]) -> list[Any]:
        """Take the states of an attempt over; returns what its operators handed over, in order."""
        handed = []
        for report in self.reports.pop(key).values():
            if report.small_change:
                state_files.write(self.storage, *report.small_change)
            for one in report.operators:
                number = one.window.operator
                if one.change:
                    before = () if one.replaces else self.states.get(number, ())
                    self.states[number] = (*before, one.change)
                if one.window.finished:
                    self.finished |= {number}
                handed += one.handed_over
        for peer in self.peers.values():
            self.network.send(peer, *encode(Committed(key[0])))
        return handed

    def end(self) -> None:
        for peer in self.peers.values():
            self.network.send(peer, *encode(End()))

    def close(self) -> None:
        self.network.close()
        for process in self.processes.values():
            process.join(5)
            if process.is_alive():
                os.kill(process.pid, 9)
