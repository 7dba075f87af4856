"""Real servers for tests: Kafka, PostgreSQL, and SeaweedFS as S3, on this host, without containers.

Each has a folder of its own and free ports of 127.0.0.1. It can be killed, paused and restarted. Nothing is
installed but jars: `available` says what is missing, and how to get it.
"""

from ridgeline.testing.services.kafka import Kafka
from ridgeline.testing.services.parts import Unavailable
from ridgeline.testing.services.postgres import Postgres
from ridgeline.testing.services.seaweedfs import SeaweedFS
from ridgeline.testing.services.service import Service, ServiceError, new_name, shared

kafka = Kafka
postgres = Postgres
seaweedfs = SeaweedFS

SERVICES: dict[str, type[Service]] = {kind.NAME: kind for kind in (Kafka, Postgres, SeaweedFS)}
"""The services by name."""

__all__ = [
    "SERVICES",
    "Kafka",
    "Postgres",
    "SeaweedFS",
    "Service",
    "ServiceError",
    "Unavailable",
    "kafka",
    "new_name",
    "postgres",
    "seaweedfs",
    "shared",
]
