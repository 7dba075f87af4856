"""Fixtures as those of `ridgeline.testing.services.fixtures`, of the servers of our own tests."""

import pytest

from ridgeline.testing.services.fixtures import ready
from support import services

__all__ = ["kafka", "mariadb", "postgres", "ready", "registry", "seaweedfs"]


@pytest.fixture
def kafka():
    """A Kafka broker."""
    return ready(services.Kafka)


@pytest.fixture
def registry():
    """A registry of schemas."""
    return ready(services.Registry)


@pytest.fixture
def postgres():
    """A PostgreSQL server."""
    return ready(services.Postgres)


@pytest.fixture
def mariadb():
    """A MariaDB server."""
    return ready(services.MariaDB)


@pytest.fixture
def seaweedfs():
    """A SeaweedFS server: S3 on disk."""
    return ready(services.SeaweedFS)
