"""Kafka: topics as inputs and outputs."""

from ridgeline.operators.kafka._rows import Header, KafkaRecord
from ridgeline.operators.kafka.kafka_input import KafkaInput
from ridgeline.operators.kafka.kafka_output import KafkaOutput

__all__ = ["Header", "KafkaInput", "KafkaOutput", "KafkaRecord"]
