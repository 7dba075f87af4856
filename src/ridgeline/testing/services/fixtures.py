"""Fixtures of pytest: `from ridgeline.testing.services.fixtures import kafka` in a `conftest.py`.

All tests of a process share one server of a kind. Each test gets it running, without the faults that another
test left. Where it cannot be had, the test is skipped, with the reason and the remedy.
With the variable `RIDGELINE_SERVICES_REQUIRED` it fails instead.
"""

import os
from typing import TypeVar

import pytest

from ridgeline.testing.services import Kafka, Postgres, SeaweedFS, Service, Unavailable, shared

__all__ = ["kafka", "postgres", "ready", "seaweedfs"]

S = TypeVar("S", bound=Service)


def ready(kind: type[S]) -> S:
    """The shared service of a kind, for fixtures of any scope; skips the test where it cannot be had."""
    give_up = pytest.fail if os.environ.get("RIDGELINE_SERVICES_REQUIRED") else pytest.skip
    if reason := kind.available():
        give_up(reason)
    try:
        return shared(kind)
    except Unavailable as error:
        give_up(f"{kind.NAME}: {error}")


@pytest.fixture
def kafka() -> Kafka:
    """A Kafka broker."""
    return ready(Kafka)


@pytest.fixture
def postgres() -> Postgres:
    """A PostgreSQL server."""
    return ready(Postgres)


@pytest.fixture
def seaweedfs() -> SeaweedFS:
    """A SeaweedFS server: S3 on disk."""
    return ready(SeaweedFS)
