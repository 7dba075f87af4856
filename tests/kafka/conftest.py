"""A broker for the tests of this folder, and runs that are gone when they end."""

import pytest

from support.kafka.broker import Broker
from support.kafka.driver import kafka_driver


@pytest.fixture(scope="session")
def _broker(tmp_path_factory):
    broker = Broker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop(kill=True)


@pytest.fixture(scope="module")
def broker(_broker):
    """A broker that runs."""
    return _broker if _broker.running else _broker.start()


@pytest.fixture
def start(tmp_path):
    """`start(*arguments)` begins `ridgeline run ...` with Spark's Kafka source, a Driver."""
    drivers = []

    def begin(*arguments):
        drivers.append(kafka_driver(arguments, tmp_path / "run.log"))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.clean()
