"""Kafka: topics as inputs and outputs."""

from ridgeline.connectors.kafka._rows import Header, KafkaRecord
from ridgeline.connectors.kafka.kafka_input import KafkaInput
from ridgeline.connectors.kafka.kafka_output import KafkaOutput

__all__ = ["Header", "KafkaInput", "KafkaOutput", "KafkaRecord"]
