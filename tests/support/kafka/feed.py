"""Messages into a topic at a rate."""

import itertools
import threading
import time

from confluent_kafka import Producer


def producer(broker):
    """Writes each message once, in order within its partition."""
    settings = {"enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    return Producer({"bootstrap.servers": broker.direct_servers, **settings})


class Feed(threading.Thread):
    """Write the numbers 0, 1, ... to a topic, `rate` a second, until `finish`; count those acknowledged."""

    def __init__(self, broker, topic, rate, keys=17):
        super().__init__(daemon=True)
        self.written = []
        """Partition, offset and number of each message, in the order of acknowledgements."""
        self._producer, self._topic, self._rate, self._keys = producer(broker), topic, rate, keys
        self._over = threading.Event()

    def run(self):
        began = time.monotonic()
        for number in itertools.count():
            ahead = number / self._rate - (time.monotonic() - began)
            if ahead > 0.05 and self._over.wait(ahead):
                break
            if self._over.is_set():
                break
            self._producer.produce(
                self._topic, str(number), key=f"k{number % self._keys}", on_delivery=self._delivered
            )
            self._producer.poll(0)
        self._producer.flush(120)

    def _delivered(self, error, message):
        assert error is None, error
        self.written.append((message.partition(), message.offset(), int(message.value())))

    def finish(self):
        self._over.set()
        self.join()
        return self.written
