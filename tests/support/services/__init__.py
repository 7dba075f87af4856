"""The servers of our own tests: those of `ridgeline.testing.services` behind a proxy, and further ones."""

from ridgeline.testing.services import Service, ServiceError, Unavailable, new_name, shared
from support.services.mariadb import MariaDB
from support.services.network import Kafka, Postgres, Proxied, SeaweedFS
from support.services.registry import Registry

kafka, mariadb, postgres, registry, seaweedfs = Kafka, MariaDB, Postgres, Registry, SeaweedFS

__all__ = [
    "Kafka",
    "MariaDB",
    "Postgres",
    "Proxied",
    "Registry",
    "SeaweedFS",
    "Service",
    "ServiceError",
    "Unavailable",
    "kafka",
    "mariadb",
    "new_name",
    "postgres",
    "registry",
    "seaweedfs",
    "shared",
]
