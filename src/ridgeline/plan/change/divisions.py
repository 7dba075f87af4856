"""How the tuples of operators are divided among their partitions, as texts that a checkpoint keeps.

A restart compares them: with another partitioner, or another key, states are with the wrong partitions though
there are as many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ridgeline.api.codec import ColumnCodec, FunctionCodec, StreamCodec
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator

_DIGEST_BYTES = 8
_PLAIN = (str, bytes, int, float, bool, type(None))


def divisions(plan: Plan) -> dict[str, str]:
    """How each operator with several partitions is divided, by its name."""
    groups: dict[str, list[PhysicalOperator]] = {}
    for one in plan.physical.operators:
        if one.partitions > 1 and not one.unifier:
            groups.setdefault(one.name, []).append(one)
    return {name: _division(sorted(group, key=lambda one: one.partition)) for name, group in groups.items()}


def redivided(plan: Plan, before: Mapping[str, str]) -> set[str]:
    """The operators whose partitions get other tuples than before: by another partitioner, or another key."""
    after = divisions(plan) if before else {}
    return {name for name, text in before.items() if name in after and text != after[name]}


def divided_plainly(text: str, keys: Sequence[PartitionKeys], ports: Iterable[str]) -> bool:
    """True if a text of `divisions` is of partitions with these keys on all of these ports."""
    return text.split(maxsplit=1)[0] == _digest(
        [[{port: _keys(own) for port in sorted(ports)}, []] for own in keys]
    )


def is_by_value(operator: PhysicalOperator, port: str) -> bool:
    """True if tuples on a port go by the value of their key, which a state may be kept by."""
    declared = operator_type(type(operator.operator)).inputs.get(port)
    codec = None if declared is None else declared.codec
    if codec is None or type(codec) in {ColumnCodec, FunctionCodec}:
        return codec is not None
    schema = operator.inputs.get(port)
    return schema is not None and not schema.pickled and codec.key_columns(schema.arrow) is not None


def _keys(keys: PartitionKeys) -> list[object]:
    return [keys.mask, sorted(keys.keys), *([sorted(keys.shared)] if keys.shared else [])]


def _division(group: list[PhysicalOperator]) -> str:
    """Two words: digests of who gets which tuples, and of keys."""
    keys = [
        [{port: _keys(keys) for port, keys in sorted(one.keys.items())}, sorted(one.round_robin)]
        for one in group
    ]
    inputs = operator_type(type(group[0].operator)).inputs
    codecs = {port: _codec(inputs[port].codec) for port in sorted(group[0].keys) if port in inputs}
    return f"{_digest(keys)} {_digest(codecs)}"


def _digest(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _codec(codec: StreamCodec | None) -> object:
    """The columns that a codec hashes. Code is known by its name: what it computes is not compared."""
    columns = getattr(codec, "columns", None)
    if codec is None or isinstance(columns, tuple):
        return columns and list(columns)
    if isinstance(codec, FunctionCodec):
        return getattr(codec.function, "__qualname__", type(codec.function).__qualname__)
    values = {name: value for name, value in vars(codec).items() if isinstance(value, _PLAIN)}
    return [type(codec).__qualname__, repr(sorted(values.items()))]
