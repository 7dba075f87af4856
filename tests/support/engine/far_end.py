"""The other end of a connection, as a process on another host: `python -m support.engine.far_end`.

It connects to STRAM at the address in the first line of its input, with the certificate in the second (JSON).
Whatever frame it gets it sends back, and it prints how the connection ends.
"""

import json
import sys

from ridgeline import SystemClock
from ridgeline.engine.exchange.limits import Limits
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import Lost, Opened, Peer, Received
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.exchange.tls import Certificate
from support.engine.wire import MASTER


def main(silent_seconds):
    address, certificate = (sys.stdin.readline().strip() for _ in range(2))
    listen = Listen(certificate=Certificate(**json.loads(certificate)))
    limits = Limits(silent_seconds=silent_seconds)
    network = Sockets(Peer(0), listen, SystemClock(), limits)
    network.connect(MASTER, address)
    while True:
        for event in network.poll(60):
            match event:
                case Opened():
                    print("open", flush=True)
                case Received(peer, kind, head):
                    network.send(peer, kind, bytes(head))
                case Lost(_, reason, detail):
                    print(f"{reason}: {detail}", flush=True)
                    network.close()
                    return


if __name__ == "__main__":
    main(float(sys.argv[1]))
