"""A proof of `KafkaOutput` against a broker, on which nothing of it stays."""

import pytest
from confluent_kafka.admin import AdminClient

from ridgeline.operators.kafka import KafkaOutput
from ridgeline.testing.connectors.proof import prove
from support.depth import deep

KILLS = deep(2)


def names(kafka):
    """The topics and groups of the broker."""
    admin = AdminClient({"bootstrap.servers": kafka.direct_servers})
    groups = [one.group_id for one in admin.list_consumer_groups().result().valid]
    topics = [name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")]
    return {*topics, *groups}


@pytest.mark.slow
@pytest.mark.parametrize("transactional", [True, False])
def test_kafka_is_proved_in_topics_of_its_own(kafka, transactional):
    topic = kafka.topic(partitions=3)
    before = names(kafka)
    options = {"key": "country", "headers": {"country": "country"}, "transactional": transactional}
    found = prove(KafkaOutput(topic, servers=kafka.servers, **options), kills=KILLS)
    assert found.holds, found
    assert found.guarantee == ("exactly once" if transactional else "at least once")
    assert found.kills == (KILLS, KILLS)
    assert [one.check for one in found.outcomes if one.skipped] == ["down and up again"]
    assert found.notes[1:] == ("proved without `headers`: the rows of the proof have other columns",)
    assert not {name for name in names(kafka) - before if "scratch" in name}
