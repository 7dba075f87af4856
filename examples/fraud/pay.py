"""Send random payments to a topic, for `live.py`: `python pay.py --rate 200`; some users are robbed.

Payments of a user are in one partition, in order.
"""

import argparse
import json
import os
import random
import time

from confluent_kafka import KafkaError, Message, Producer


def payment(number: int, chance: random.Random) -> dict[str, str | int]:
    """A payment of one of a hundred users; one of 50 is large, and at night."""
    user = f"user{chance.randrange(100)}"
    if chance.random() < 0.02:
        return {"id": f"p{number}", "user": user, "cents": chance.randrange(30_000, 90_000), "hour": 3}
    cents = max(100, round(chance.gauss(4_500, 900)))
    return {"id": f"p{number}", "user": user, "cents": cents, "hour": chance.randrange(6, 24)}


def delivered(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        print(f"not delivered: {error}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--servers", default=os.environ.get("KAFKA_SERVERS", "localhost:9092"))
    options.add_argument("--topic", default="payments")
    options.add_argument("--rate", type=float, default=200, help="payments a second")
    options.add_argument("--count", type=int, default=2**62, help="how many")
    options.add_argument("--first", type=int, default=0, help="the number of the first one")
    given = options.parse_args()
    producer = Producer({"bootstrap.servers": given.servers, "enable.idempotence": True, "linger.ms": 5})
    chance, began = random.Random(given.first), time.monotonic()  # noqa: S311  no secrets
    for sent in range(given.count):
        time.sleep(max(0.0, began + sent / given.rate - time.monotonic()))
        one = payment(given.first + sent, chance)
        producer.produce(given.topic, json.dumps(one), str(one["user"]), on_delivery=delivered)
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    main()
