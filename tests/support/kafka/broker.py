"""A real Kafka broker: one process that can be stopped, killed and restarted on the same data and port."""

import shutil
import subprocess
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.jars import class_path
from support.ports import free_port
from support.waiting import PATIENCE_SECONDS

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""
_STORAGE_ID = "cmlkZ2VsaW5lLXRlc3RzMQ"


class Broker:
    """A broker whose files lie in `folder`.

    `start` returns once it answers, `stop` ends it in order or with SIGKILL.
    """

    def __init__(self, folder):
        self._folder = folder
        self._settings = folder / "server.properties"
        self._port, controller = free_port(), free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._settings.write_text(
            _PROPERTIES.format(port=self._port, controller=controller, data=folder / "data")
        )
        self._process = None
        formatting = ("kafka.tools.StorageTool", "format", "-t", _STORAGE_ID, "-c", str(self._settings))
        self._java(*formatting).wait(PATIENCE_SECONDS)

    def _java(self, main, *arguments):
        java = shutil.which("java")
        command = [
            java,
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            class_path("kafka-broker"),
            main,
            *arguments,
        ]
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def start(self):
        self._process = self._java("kafka.Kafka", str(self._settings))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                AdminClient({"bootstrap.servers": self.address, "log_level": 0}).list_topics(timeout=1)
            except KafkaException as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    log = (self._folder / "broker.log").read_text(errors="replace")[-2000:]
                    message = f"the broker did not start: {error}; it printed:\n{log}"
                    raise AssertionError(message) from error
            else:
                return self

    def stop(self, *, kill=False):
        if self._process is not None:
            if kill:
                self._process.kill()
            else:
                self._process.terminate()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    @property
    def running(self):
        return self._process is not None and self._process.poll() is None

    def create_topic(self, name, partitions=2):
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_SECONDS)

    def producer(self):
        """Writes each message once, in order within its partition."""
        settings = {
            "bootstrap.servers": self.address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
        }
        return Producer(settings)

    def ends(self, topic):
        """The offset after the last message, by partition."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "tests", "log_level": 0})
        try:
            partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
            return {
                number: consumer.get_watermark_offsets(
                    TopicPartition(topic, number), timeout=PATIENCE_SECONDS
                )[1]
                for number in partitions
            }
        finally:
            consumer.close()
