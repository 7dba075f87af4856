"""Real servers for tests: Kafka, PostgreSQL and others, on this host, without containers.

Each has a folder of its own and free ports of 127.0.0.1. It can be killed, paused, restarted, cut off and
slowed down. No package is installed without a request: `available` says what is missing, `install`
installs it.
"""

from ridgeline.testing.services.parts.part import Unavailable
from ridgeline.testing.services.servers.kafka import Kafka
from ridgeline.testing.services.servers.postgres import Postgres
from ridgeline.testing.services.service import Service, ServiceError
from ridgeline.testing.services.shared import shared

kafka = Kafka
postgres = Postgres

SERVICES: dict[str, type[Service]] = {kind.NAME: kind for kind in (Kafka, Postgres)}
"""The services by name."""


def install(*names: str) -> None:
    """Install what services need, all of them if none is named; what is there already stays.

    Raises:
        KeyError: a service that is not in `SERVICES`.
        Unavailable: with the reason, if something cannot be had.
    """
    for name in names or SERVICES:
        SERVICES[name].install()


__all__ = [
    "SERVICES",
    "Kafka",
    "Postgres",
    "Service",
    "ServiceError",
    "Unavailable",
    "install",
    "kafka",
    "postgres",
    "shared",
]
