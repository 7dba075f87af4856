"""Opens the messages that a container gets from others in one window."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import pyarrow as pa

from ridgeline.api.columns.combined import Combined, PackedCombined
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import Failure, OperatorError
from ridgeline.engine.exchange import block, coded
from ridgeline.engine.exchange.block import Block, Message, Payload
from ridgeline.engine.exchange.outgoing import Emitted
from ridgeline.engine.exchange.shared_blocks import LostBlockError, SharedReader
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.physical import PhysicalOperator


def receive(spec: ContainerSpec, messages: Sequence[Message], window_id: int) -> Emitted:
    """The tuples of all blocks by input port, in the order of producers, not of arrival.

    Raises OperatorError for a block that is lost, damaged, or that its codec cannot decode.
    """
    delivered: Emitted = {}
    reader = SharedReader()
    for message in sorted(messages, key=lambda message: (message.producer, message.part)):
        for sent in message.blocks:
            if isinstance(sent.payload, Tuples):
                tuples = sent.payload
            elif isinstance(sent.payload, PackedCombined):
                schema = spec.incoming[message.producer, sent.stream].schema
                tuples = Combined.of_packed(schema, sent.payload)
            else:
                tuples = _opened(spec, message.producer, sent, sent.payload, reader, window_id)
            delivered.setdefault((sent.sink, sent.port), []).append(tuples)
    return delivered


def _opened(
    spec: ContainerSpec, producer: int, sent: Block, payload: Payload, reader: SharedReader, window_id: int
) -> Tuples:
    """The tuples of a block that comes from another process. Raises OperatorError."""
    schema, encoding, where = spec.incoming[producer, sent.stream]
    try:
        data, times = reader.open(payload), reader.open_times(sent.times)
        if encoding is not None:
            return coded.decode(data, encoding, times)
        return block.decode(schema, data, times)
    except (LostBlockError, coded.DamagedError, pa.ArrowException) as error:
        raise _unreceived(
            spec,
            _operator(spec, sent.sink),
            f"a block of container {producer} for {where} is lost or damaged: {error}",
            window_id,
        ) from error
    except coded.DecodeError as error:
        trace = "".join(traceback.format_exception(error))
        raise _failed(spec, _operator(spec, sent.sink), f"{where}: {error}", window_id, trace) from error


def _operator(spec: ContainerSpec, operator: int) -> PhysicalOperator:
    return next(found for found in spec.operators if found.id == operator)


def _unreceived(spec: ContainerSpec, operator: PhysicalOperator, what: str, window_id: int) -> OperatorError:
    return _failed(spec, operator, f"{what} in window {window_id}; the window is run again", window_id)


def _failed(
    spec: ContainerSpec, operator: PhysicalOperator, text: str, window_id: int, trace: str = ""
) -> OperatorError:
    """The error of an operator that did not get what was sent; `trace`: of its codec, which failed."""
    name = operator.title if operator.unifier else operator.name
    return OperatorError(
        Failure(
            spec.application,
            name,
            operator.partition,
            window_id,
            "receive",
            text,
            traceback=trace,
            raised=bool(trace),
        )
    )
