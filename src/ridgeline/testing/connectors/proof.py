"""A proof of an output against the user's own server: the conformance tests in scratch places of it."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ridgeline.api.clock import SystemClock
from ridgeline.connect.scratch import SCRATCH, ScratchPlace
from ridgeline.connect.window_output import WindowOutput
from ridgeline.testing.connectors.killed import Kills, kill_processes
from ridgeline.testing.connectors.outputs import run_checks
from ridgeline.testing.connectors.target import ConnectorReport, ConnectorRow, ConnectorTarget, Outcome

_KILLS = "kills of the process"


@dataclass
class Proof:
    """The result of a proof.

    Attributes:
        scratch: What the names of its scratch places begin with.
        expected: The guarantee that the output is to show.
        guarantee: The one that was shown: "exactly once", "at least once" or "none".
        outcomes: Of each check.
        kills: How many processes were to be killed, and were.
        notes: How the output that was proved differs from the user's.
        kept: Scratch places that could not be removed, with the reason.
    """

    scratch: str
    expected: str = "exactly once"
    guarantee: str = "none"
    outcomes: Sequence[Outcome] = ()
    kills: Kills = field(default_factory=lambda: Kills(0, 0))
    notes: Sequence[str] = ()
    kept: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether at least the expected guarantee was shown, and no check failed."""
        failed = any(one.fault for one in self.outcomes)
        return not failed and self.guarantee in {"exactly once", self.expected}


def scratch_name() -> str:
    """The name of the scratch places of a new proof: with its time in UTC."""
    now = datetime.fromtimestamp(SystemClock().wall(), UTC)
    return f"{SCRATCH}{now:%Y%m%d%H%M%S}_{secrets.token_hex(3)}"


class _Target(ConnectorTarget):
    """A scratch place as the conformance tests take it."""

    def __init__(self, place: ScratchPlace, name: str, relay: _Relay, kept: list[str]) -> None:
        self._place, self._relay, self._kept = place, relay, kept
        self.application, self.upserts = name, place.upserts
        self.why_not_down = relay.why_not
        self._port: int | None = None

    def output(self) -> WindowOutput:
        return self._place.output(self._port)

    def rows(self) -> Sequence[Any]:
        return self._place.rows()

    def poison(self) -> ConnectorRow | None:
        found = self._place.poison()
        return None if found is None else ConnectorRow(*found)

    def down(self) -> bool:
        if self._relay.port is None:
            return False
        self._port = self._relay.port
        self._relay.cut()
        return True

    def up(self) -> None:
        self._relay.mend()

    def close(self) -> None:
        """Remove the place. If that fails, it is noted, and the check counts all the same."""
        try:
            self._place.remove()
        except Exception as error:  # noqa: BLE001  said at the end
            self._kept.append(f"{self.application}: {error}")


class _Relay:
    """A TCP proxy in front of the user's server, if its address allows that."""

    def __init__(self, place: ScratchPlace, stack: ExitStack) -> None:
        from ridgeline.testing.services.ports import Ports
        from ridgeline.testing.services.processes import TemporaryFolder
        from ridgeline.testing.services.proxy import Proxy

        self.port: int | None = None
        self.why_not = f"your server is not stopped, and {place.why_no_relay}"
        self._proxy: Proxy | None = None
        if place.server is None:
            return
        try:
            found = socket.getaddrinfo(
                place.server.host, place.server.port, socket.AF_INET, socket.SOCK_STREAM
            )
        except OSError:
            self.why_not = "your server is not stopped, and it has no address of IPv4 for a relay"
            return
        address, port = str(found[0][4][0]), place.server.port
        ports, folder = Ports(), TemporaryFolder("ridgeline-relay")
        stack.callback(ports.release)
        stack.callback(folder.remove)
        self.port = ports.take()
        self._proxy = Proxy({self.port: f"{address}:{port}"}, folder.path)
        stack.callback(self._proxy.close)

    def cut(self) -> None:
        """Drop and refuse connections."""
        if self._proxy is not None:
            self._proxy.cut(hang=False)

    def mend(self) -> None:
        """Accept them again."""
        if self._proxy is not None:
            self._proxy.mend()


def prove(
    output: WindowOutput,
    *,
    kills: int = 20,
    seed: int = 1,
    only: Collection[str] = (),
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
) -> Proof:
    """Run the conformance tests of an output in scratch places, and remove these.

    Then a process that writes is killed `kills` times by SIGKILL, at points that are drawn from `seed`, and
    started again each time. `only`: the names of the checks to run, or parts of them. `on_outcome` is called
    after each check.

    Raises NotProvableError for an output without scratch places, RidgelineError if none can be made.
    """
    proof = Proof(scratch_name())
    numbers = iter(range(1, 10_000))

    def place() -> tuple[str, ScratchPlace]:
        name = f"{proof.scratch}_{next(numbers):03d}"
        return name, output.scratch(name)

    with ExitStack() as stack:
        stack.enter_context(_sweeping(output, proof))
        _, first = place()
        stack.callback(_quietly, first.remove)
        proof.expected, proof.notes = first.guarantee, tuple(first.notes)
        relay = _Relay(first, stack)
        first.remove()

        def target() -> ConnectorTarget:
            name, made = place()
            return _Target(made, name, relay, proof.kept)

        report = run_checks(target, only=only, on_outcome=on_outcome)
        proof.outcomes = report.outcomes
        if kills and (not only or any(part in _KILLS for part in only)):
            proof.kills, outcome = kill_processes(target(), kills, seed)
            on_outcome(outcome)
            proof.outcomes = (*report.outcomes, outcome)
        proof.guarantee = ConnectorReport(proof.outcomes).guarantee
    return proof


def _quietly(remove: Callable[[], None]) -> None:
    """Remove a place whose removal was tried before."""
    try:
        remove()
    except Exception:  # noqa: BLE001  the sweep says so
        return


@contextmanager
def _sweeping(output: WindowOutput, proof: Proof) -> Iterator[None]:
    """Remove what is left of a proof at its end, also if it is interrupted or a check could not."""
    try:
        yield
    finally:
        try:
            names = [name for name in output.scratch_left() if name.startswith(proof.scratch)]
            if names:
                output.remove_scratch(names)
            proof.kept.clear()
        except Exception as error:  # noqa: BLE001  said at the end; the run's own error counts more
            proof.kept.append(f"{proof.scratch}*: {error}")
