"""From one process to another: an Arrow batch there, eight bytes back, over each transport.

Ours is the network that slots talk over, as it is: frames, handshake, poll loop. Flight has one exchange that
stays open.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import SystemClock
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Network, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.exchange.tls import Certificate

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64())])
SMALL, LARGE = 100, 1_000_000
"""Rows of 16 bytes."""
SMALL_TRIPS, LARGE_TRIPS = 3000, 60
TRIP = "round trip seconds"
RATE = "large batches: tuples/s"
ANSWER = bytes(8)
HERE, THERE = Peer(0), Peer(STRAM)


def batch(rows: int) -> pa.RecordBatch:
    numbers = np.arange(rows)
    return pa.record_batch([numbers, numbers], schema=SCHEMA)


def figures(of_round: Round, trip: Callable[[pa.RecordBatch], None]) -> Figures:
    """Time many trips of small batches, and some of large ones."""

    def times(rows: int, trips: int) -> list[float]:
        sent, found = batch(rows), []
        for _ in range(of_round.windows(trips)):
            began = time.perf_counter()
            trip(sent)
            found.append(time.perf_counter() - began)
        return of_round.warm(found)

    return {TRIP: times(SMALL, SMALL_TRIPS), RATE: [LARGE / seconds for seconds in times(LARGE, LARGE_TRIPS)]}


@contextmanager
def other_process(target: Callable[..., None], *arguments: object) -> Iterator[Any]:
    """What the other process first says; it is ended at the end."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


# Ours -------------------------------------------------------------------------------------------------------


def received(network: Network) -> Iterator[Received]:
    """What comes in, without end."""
    while True:
        for event in network.poll(10.0):
            if isinstance(event, Received):
                yield event


def serve_network(first: Connection, listen: Listen) -> None:
    """The other end."""
    network = Sockets(THERE, listen, SystemClock())
    first.send(network.address)
    for event in received(network):
        pa.ipc.read_record_batch(pa.py_buffer(event.buffers[0]), SCHEMA)
        network.send(event.peer, 1, ANSWER)


def ours(of_round: Round, listen: Callable[[Path], Listen]) -> Figures:
    there = listen(of_round.folder)
    with other_process(serve_network, there) as address:
        network = Sockets(HERE, Listen(certificate=there.certificate), SystemClock())
        network.connect(THERE, address)
        answers = received(network)

        def trip(sent: pa.RecordBatch) -> None:
            network.send(THERE, 1, b"head", [sent.serialize()])
            next(answers)

        found = figures(of_round, trip)
        network.close()
        return found


def encrypted(folder: Path) -> Listen:
    """With a new certificate, which the command `openssl` makes."""
    chain, key = folder / "chain.pem", folder / "key.pem"
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", str(key)]
    command = ["openssl", "req", "-x509", *new_key, "-out", str(chain), "-subj", "/CN=ridgeline"]
    subprocess.run(command, check=True, capture_output=True)
    return Listen(unix=False, host="127.0.0.1", certificate=Certificate(chain.read_text(), key.read_text()))


# Flight -----------------------------------------------------------------------------------------------------


def serve_flight(first: Connection) -> None:
    """The other end."""
    import pyarrow.flight

    class Server(pyarrow.flight.FlightServerBase):
        def do_exchange(self, _context: Any, _descriptor: Any, reader: Any, writer: Any) -> None:
            writer.begin(SCHEMA)
            while reader.read_chunk().data is not None:
                writer.write_metadata(ANSWER)

    server = Server("grpc://127.0.0.1:0")
    first.send(server.port)
    server.serve()


def flight(of_round: Round) -> Figures:
    import pyarrow.flight

    with other_process(serve_flight) as port:
        client = pyarrow.flight.connect(f"grpc://127.0.0.1:{port}")
        writer, reader = client.do_exchange(pyarrow.flight.FlightDescriptor.for_command(b"trip"))
        writer.begin(SCHEMA)

        def trip(sent: pa.RecordBatch) -> None:
            writer.write_batch(sent)
            reader.read_chunk()

        return figures(of_round, trip)


BENCHMARKS = [
    Benchmark(
        name="transport",
        title="transport: 100 rows from process to process and an answer; batches of 16 MB",
        contestants={
            "Unix socket": partial(ours, listen=lambda _folder: Listen()),
            "TLS": partial(ours, listen=encrypted),
            "Flight": flight,
        },
        goals=[
            Goal(figure=TRIP, of="Unix socket", against="Flight", at_most=0.6),
            Goal(figure=RATE, of="Unix socket", against="Flight", at_least=0.8),
        ],
        budget_seconds=60,
        part_of_all=False,
    )
]
