"""The payloads of messages as columns, and back: JSON, Avro, Protobuf, text, bytes."""

from ridgeline.operators.payloads._registry import Registry, UnavailableError
from ridgeline.operators.payloads.encoding import (
    Decoded,
    Decoder,
    Encoder,
    PayloadFormat,
    decode,
    decoder_of,
    encoder_of,
)

__all__ = [
    "Decoded",
    "Decoder",
    "Encoder",
    "PayloadFormat",
    "Registry",
    "UnavailableError",
    "decode",
    "decoder_of",
    "encoder_of",
]
