"""A broker for the tests of this folder, and runs that are gone when they end."""

import pytest

from support import services
from support.kafka.driver import kafka_driver
from support.kafka.reading import Reading
from support.services.fixtures import kafka, ready, registry

__all__ = ["kafka", "registry"]


@pytest.fixture(scope="module")
def broker():
    """A broker that runs."""
    return ready(services.kafka)


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


@pytest.fixture
def reading():
    """`reading(kafka, topic)`: a `Reading`, closed at the end."""
    made = []

    def make(*arguments, **properties):
        made.append(Reading(*arguments, **properties))
        return made[-1]

    yield make
    for one in made:
        one.enumerator.close()
