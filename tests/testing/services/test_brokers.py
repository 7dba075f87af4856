"""Real servers of Redis, NATS, RabbitMQ and MQTT: killed, restarted, cut off."""

import asyncio
import queue
import uuid

import pytest

from ridgeline.testing import services
from support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.crash
ENDS = pytest.mark.parametrize("end", ["kill", "stop"])


@ENDS
def test_redis_keeps_what_it_has_answered(redis, end):
    library = pytest.importorskip("redis")
    url = redis.database()
    client = library.Redis.from_url(url)
    for number in range(1000):
        client.xadd("rows", {"n": number})
    client.close()
    getattr(redis, end)()
    redis.start()
    with library.Redis.from_url(url) as again:
        assert again.xlen("rows") == 1000


def test_redis_has_databases_apart_and_a_network_to_cut(redis):
    library = pytest.importorskip("redis")
    first, second = (library.Redis.from_url(redis.database(), retry=None) for _ in range(2))
    first.set("a", 1)
    assert second.get("a") is None
    redis.cut()
    with pytest.raises(library.exceptions.ConnectionError):
        first.get("a")
    redis.mend()
    assert first.get("a") == b"1"
    first.close()
    second.close()


@ENDS
def test_nats_keeps_the_messages_of_a_stream(nats, end):
    library = pytest.importorskip("nats")
    name = uuid.uuid4().hex

    async def publish():
        connection = await library.connect(nats.url)
        stream = connection.jetstream()
        await stream.add_stream(name=name, subjects=[f"{name}.*"])
        for number in range(100):
            await stream.publish(f"{name}.rows", b"%d" % number)
        await connection.close()

    async def read():
        connection = await library.connect(nats.url)
        stream = connection.jetstream()
        subscription = await stream.pull_subscribe(f"{name}.rows", stream=name)
        messages = await subscription.fetch(100, timeout=PATIENCE_SECONDS)
        await connection.close()
        return [int(message.data) for message in messages]

    asyncio.run(publish())
    getattr(nats, end)()
    nats.start()
    assert asyncio.run(read()) == list(range(100))


def _channel(rabbitmq):
    pika = pytest.importorskip("pika")
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    channel = connection.channel()
    channel.confirm_delivery()
    return connection, channel


def _read_stream(rabbitmq, name, offset, last):
    """The messages from an offset to the last; None while the stream has no leader."""
    pika = pytest.importorskip("pika")
    connection, channel = _channel(rabbitmq)
    channel.basic_qos(prefetch_count=100)
    found = []
    try:
        stream = channel.consume(name, arguments={"x-stream-offset": offset}, inactivity_timeout=5)
        for _, _, body in stream:
            if body is None:
                return None
            found.append(int(body))
            if found[-1] == last:
                return found
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker):
        return None
    finally:
        if connection.is_open:
            connection.close()


def test_a_queue_of_rabbitmq_keeps_what_it_has_confirmed_after_a_kill(rabbitmq):
    pika = pytest.importorskip("pika")
    name = uuid.uuid4().hex
    connection, channel = _channel(rabbitmq)
    channel.queue_declare(name, durable=True)
    for number in range(20):
        channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    connection.close()
    rabbitmq.kill()
    rabbitmq.start()
    connection, channel = _channel(rabbitmq)
    assert [int(channel.basic_get(name, auto_ack=True)[2]) for _ in range(20)] == list(range(20))
    connection.close()


def test_rabbitmq_keeps_a_stream_and_reads_it_from_an_offset(rabbitmq):
    name = uuid.uuid4().hex
    connection, channel = _channel(rabbitmq)
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    for number in range(20):
        channel.basic_publish("", name, b"%d" % number)
    connection.close()
    rabbitmq.restart()
    found = wait_until(lambda: _read_stream(rabbitmq, name, offset=15, last=19), "a leader of the stream")
    assert found[-5:] == [15, 16, 17, 18, 19]  # from the chunk of the offset on: it may begin earlier


def test_a_network_of_rabbitmq_is_cut_and_mended(rabbitmq):
    pika = pytest.importorskip("pika")
    rabbitmq.cut()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        _channel(rabbitmq)
    rabbitmq.mend()
    connection, _ = _channel(rabbitmq)
    connection.close()


def _mqtt(mosquitto, name, messages):
    mqtt = pytest.importorskip("paho.mqtt.client")
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
    client.on_message = lambda _client, _data, message: messages.put(message.payload)
    client.connect(mosquitto.host, mosquitto.port)
    client.loop_start()
    client.subscribe(f"{name}/#", qos=1)
    return client


@ENDS
def test_mosquitto_keeps_messages_for_a_client_that_is_away(mosquitto, end):
    name, messages = f"client-{uuid.uuid4().hex}", queue.Queue()
    client = _mqtt(mosquitto, name, messages)
    client.publish(f"{name}/rows", b"first", qos=1).wait_for_publish()
    assert messages.get(timeout=PATIENCE_SECONDS) == b"first"
    client.disconnect()
    client.loop_stop()
    other = _mqtt(mosquitto, f"other-{name}", queue.Queue())
    other.publish(f"{name}/rows", b"second", qos=1).wait_for_publish()
    other.disconnect()
    other.loop_stop()
    database = mosquitto.folder / "data" / "mosquitto.db"
    wait_until(lambda: database.exists() and b"second" in database.read_bytes(), "its data to be written")
    getattr(mosquitto, end)()
    mosquitto.start()
    client = _mqtt(mosquitto, name, messages)
    assert messages.get(timeout=PATIENCE_SECONDS) == b"second"
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize("name", ["redis", "nats", "mosquitto"])
def test_two_of_a_kind_run_at_once(name):
    kind = services.SERVICES[name]
    if reason := kind.available():
        pytest.skip(reason)
    with kind() as first, kind() as second:
        assert first.addresses() != second.addresses()
