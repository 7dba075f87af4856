"""Networks that connect, send, hang up, die and come again at random: events stay in order, frames whole."""

import random
import threading

import pytest

from ridgeline.engine.exchange.network import Lost, Opened, Peer
from support.engine.wire import TLS, UNIX, Wire

SLOTS = 4
STEPS = 1500
SIZES = (0, 10, 5_000, 300_000)
NUMBERED, BEAT = 1, 2


class Chaos:
    """Four slots, what each knows of the others, and the numbers of the frames between them."""

    def __init__(self, wire, listen, seed):
        self.wire, self.listen, self.random = wire, listen, random.Random(seed)
        self.networks = [wire.make(Peer(slot), listen) for slot in range(SLOTS)]
        self.open = set()
        self.sent = {}
        self.last = {}
        self.received = 0

    def step(self):
        """Something happens to one of them; all take in what has come."""
        one, other = self.random.sample(range(SLOTS), 2)
        network, peer, chance = self.networks[one], self.networks[other].me, self.random.random()
        if chance < 0.1 and one > other:
            network.connect(peer, self.networks[other].address)
        elif chance < 0.6:
            self.send(network, peer)
        elif chance < 0.605:
            network.hang_up(peer)
            self.forget((network.me, peer))
        elif chance < 0.61:
            network.close(0.0)
            self.networks[one] = self.wire.make(Peer(one, network.me.attempt + 1), self.listen)
        for network in self.networks:
            for event in network.poll(0.0):
                self.take(network.me, event)

    def send(self, network, peer):
        number = self.sent.get((network.me, peer), 0)
        body = bytes([number % 251]) * self.random.choice(SIZES)
        if network.queued_bytes(peer) < 1 << 22 and network.send(peer, NUMBERED, b"%d" % number, [body]):
            self.sent[network.me, peer] = number + 1

    def take(self, me, event):
        pair = (me, event.peer)
        if isinstance(event, Opened):
            assert pair not in self.open
            self.open.add(pair)
        elif isinstance(event, Lost):
            self.forget(pair)
        else:
            assert pair in self.open
            if event.kind == NUMBERED:
                number, (body,) = int(bytes(event.head)), event.buffers
                assert number == self.last.get(pair, number - 1) + 1
                assert bytes(body) == bytes([number % 251]) * body.nbytes
                self.last[pair] = number
                self.received += 1

    def forget(self, pair):
        self.open.discard(pair)
        self.last.pop(pair, None)


@pytest.mark.parametrize(("kind", "listen"), [("unix", UNIX), ("tls", TLS)])
def test_whatever_happens_events_are_in_order_and_frames_whole(kind, listen):
    wire, over = Wire(), threading.Event()
    chaos = Chaos(wire, listen, seed=kind)

    def beat():
        while not over.wait(0.001):
            for network in list(chaos.networks):
                for other in list(chaos.networks):
                    network.send(other.me, BEAT, b"beat")

    heart = threading.Thread(target=beat)
    heart.start()
    try:
        for _ in range(STEPS):
            chaos.step()
    finally:
        over.set()
        heart.join()
        wire.close()

    assert chaos.received > 20
    assert not any(
        network.refused[reason] for network in chaos.networks for reason in ("malformed", "too large")
    )
