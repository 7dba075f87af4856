"""Live: payments of a topic of Kafka, the steps of `fraud.py`, scores to PostgreSQL and alerts to a topic.

    export KAFKA_SERVERS=localhost:9092 POSTGRES_DSN=postgresql://writer@localhost/shop
    ridgeline run live.py --checkpoint state

Run it in this folder, where the model is. Make the topic `payments` first, with several partitions;
`python pay.py` sends payments to it. The table `scores` and the topic `alerts` are made. Kill it and start it
again with the same `--checkpoint`: each payment has one score, and a reader of committed records sees each
alert once. A message that is no payment goes to a file in `bad`, with its partition and offset.
It needs `pip install 'ridgeline[frames,kafka,models,postgres]'`.
"""

from risk import Payment, risks, risky

from ridgeline import Application
from ridgeline.connectors.kafka import KafkaInput, KafkaOutput
from ridgeline.connectors.postgres import PostgresOutput
from ridgeline.operators import FileOutput

app = Application("fraud_live", window="50ms", on_error="SKIP")
scores = risks(app.read("payments", KafkaInput("payments", schema=Payment)))
scores.write("scores", PostgresOutput("scores"))
risky(scores).write("alerts", KafkaOutput("alerts", key="user", topic_partitions=3))
app.dead_letters(FileOutput("bad", format="jsonl"))
