"""Fixtures of pytest: `from ridgeline.testing.services.fixtures import kafka` in a `conftest.py`.

All tests of a process share one server of a kind. Each test gets it running, without the faults that another
test left. Where it cannot be had, the test is skipped, with the reason and the remedy.
"""

from typing import TypeVar

import pytest

from ridgeline.testing.services import Kafka, Postgres, Service, Unavailable, shared

S = TypeVar("S", bound=Service)


def _ready(kind: type[S]) -> S:
    if reason := kind.available():
        pytest.skip(reason)
    try:
        return shared(kind)
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def kafka() -> Kafka:
    """A Kafka broker."""
    return _ready(Kafka)


@pytest.fixture
def postgres() -> Postgres:
    """A PostgreSQL server."""
    return _ready(Postgres)
