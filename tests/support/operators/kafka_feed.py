"""Numbered messages into a topic at a rate, whatever becomes of the broker."""

import threading
import time

from confluent_kafka import Producer


class Feed(threading.Thread):
    """Writes `{"number": n}` of 16 keys in turn, each once and in order, until `finish`."""

    def __init__(self, kafka, topic, rate):
        super().__init__(daemon=True)
        self._topic, self._rate = topic, rate
        self._over = threading.Event()
        self._written = 0
        settings = {"enable.idempotence": True, "linger.ms": 2, "delivery.timeout.ms": 600_000}
        self._producer = Producer({"bootstrap.servers": kafka.direct_servers, "log_level": 0, **settings})

    def run(self):
        began = time.monotonic()
        while not self._over.is_set():
            due = int((time.monotonic() - began) * self._rate)
            for number in range(self._written, due):
                key = number % 16
                value = b'{"number": %d}' % (number // 16)
                while not self._took(value, str(key)):
                    self._producer.poll(0.05)
            self._written = max(self._written, due)
            self._producer.poll(0)
            self._over.wait(0.005)

    def _took(self, value, key):
        """Give a message to the client; False where it has no room: the broker may be away for long."""
        try:
            self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    @staticmethod
    def _delivered(error, message):
        assert error is None, error

    def finish(self):
        """End; the number of messages."""
        self._over.set()
        self.join()
        assert self._producer.flush(300) == 0
        return self._written
