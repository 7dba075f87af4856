"""Messages into a topic at a rate."""

import itertools
import threading
import time

from confluent_kafka import Producer


def numbered(number):
    """The value and the key of a message: the number, and one of 17 keys."""
    return str(number), f"k{number % 17}"


class Feed(threading.Thread):
    """Write messages 0, 1, ... to a topic, `rate` a second, until `finish`; keep those acknowledged.

    Each is written once, in order within its partition. `message`: its value and key, by its number.
    """

    def __init__(self, broker, topic, rate, message=numbered):
        super().__init__(daemon=True)
        self.written = []
        """Partition, offset and value of each message, in the order of acknowledgements."""
        self._topic, self._rate, self._message = topic, rate, message
        settings = {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 600_000}
        self._producer = Producer({"bootstrap.servers": broker.direct_servers, "log_level": 0, **settings})
        self._over = threading.Event()

    def run(self):
        began = time.monotonic()
        for number in itertools.count():
            ahead = number / self._rate - (time.monotonic() - began)
            if ahead > 0.05 and self._over.wait(ahead):
                break
            if self._over.is_set():
                break
            while not self._took(*self._message(number)):
                self._producer.poll(0.05)
            self._producer.poll(0)
        assert self._producer.flush(300) == 0

    def _took(self, value, key):
        """Give a message to the client; False where it has no room: the broker may be away for long."""
        try:
            self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    def _delivered(self, error, message):
        assert error is None, error
        self.written.append((message.partition(), message.offset(), message.value()))

    def finish(self):
        self._over.set()
        self.join()
        return self.written
