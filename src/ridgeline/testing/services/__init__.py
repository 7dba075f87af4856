"""Real servers for tests: Kafka, PostgreSQL and others, on this host, without containers.

Each has a folder of its own and free ports of 127.0.0.1. It can be killed, paused, restarted, cut off and
slowed down. No package is installed without a request: `available` says what is missing, `install`
installs it.
"""

from ridgeline.testing.services.parts.part import Unavailable
from ridgeline.testing.services.servers.kafka import Kafka
from ridgeline.testing.services.servers.mariadb import MariaDB
from ridgeline.testing.services.servers.mosquitto import Mosquitto
from ridgeline.testing.services.servers.nats import Nats
from ridgeline.testing.services.servers.object_stores import Moto, ObjectStore, SeaweedFS
from ridgeline.testing.services.servers.postgres import Postgres
from ridgeline.testing.services.servers.rabbitmq import RabbitMQ
from ridgeline.testing.services.servers.redis import Redis
from ridgeline.testing.services.servers.registry import Registry
from ridgeline.testing.services.service import Service, ServiceError, new_name
from ridgeline.testing.services.shared import shared

kafka = Kafka
registry = Registry
postgres = Postgres
mariadb = MariaDB
redis = Redis
nats = Nats
rabbitmq = RabbitMQ
mosquitto = Mosquitto
seaweedfs = SeaweedFS
moto = Moto

SERVICES: dict[str, type[Service]] = {
    kind.NAME: kind
    for kind in (Kafka, Registry, Postgres, MariaDB, Redis, Nats, RabbitMQ, Mosquitto, SeaweedFS, Moto)
}
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
    "MariaDB",
    "Mosquitto",
    "Moto",
    "Nats",
    "ObjectStore",
    "Postgres",
    "RabbitMQ",
    "Redis",
    "Registry",
    "SeaweedFS",
    "Service",
    "ServiceError",
    "Unavailable",
    "install",
    "kafka",
    "mariadb",
    "mosquitto",
    "moto",
    "nats",
    "new_name",
    "postgres",
    "rabbitmq",
    "redis",
    "registry",
    "seaweedfs",
    "shared",
]
