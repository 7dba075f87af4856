"""How the tuples of operators are divided among their partitions, as texts that a checkpoint keeps.

A restart compares them: with another partitioner, or another key, states are with the wrong partitions though
there are as many.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from ridgeline.api.codec import ColumnCodec, FunctionCodec, StreamCodec
from ridgeline.api.operator import operator_type
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator

_DIGEST_BYTES = 8
_DEEPEST = 4
_PLAIN = (str, bytes, int, float, bool, type(None))


def divisions(plan: Plan) -> dict[str, str]:
    """How each operator with several partitions is divided, by its name."""
    groups: dict[str, list[PhysicalOperator]] = {}
    for one in plan.physical.operators:
        if one.partitions > 1 and not one.unifier:
            groups.setdefault(one.name, []).append(one)
    return {name: _division(sorted(group, key=lambda one: one.partition)) for name, group in groups.items()}


def divided_alike(one: str, other: str) -> bool:
    """True if two texts of `divisions` may be of the same division.

    Code of functions is compared only if one Python has compiled both.
    """
    (who, how, maker, code), (others, other_how, other_maker, other_code) = one.split(), other.split()
    return (who, how) == (others, other_how) and (maker != other_maker or code == other_code)


def redivided(plan: Plan, before: Mapping[str, str]) -> set[str]:
    """The operators whose partitions get other tuples than before: by another partitioner, or another key."""
    after = divisions(plan) if before else {}
    return {name for name, text in before.items() if name in after and not divided_alike(text, after[name])}


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
    """Four words: digests of who gets which tuples and of keys, what compiles code, a digest of code."""
    keys = [
        [{port: _keys(keys) for port, keys in sorted(one.keys.items())}, sorted(one.round_robin)]
        for one in group
    ]
    inputs = operator_type(type(group[0].operator)).inputs
    codecs = {port: inputs[port].codec for port in sorted(group[0].keys) if port in inputs}
    columns = {port: _columns(codec) for port, codec in codecs.items()}
    code = {port: list(_code_of(codec)) for port, codec in codecs.items() if columns[port] is None}
    maker = f"{sys.implementation.cache_tag}-{sys.flags.optimize}"
    return f"{_digest(keys)} {_digest(columns)} {maker} {_digest(code)}"


def _digest(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _columns(codec: StreamCodec | None) -> list[str] | None:
    """The columns that a codec hashes; None if it calls code."""
    columns = getattr(codec, "columns", None)
    return list(columns) if isinstance(columns, tuple) else None


def _code_of(codec: StreamCodec | None) -> Iterator[str]:
    """The code and values by which a codec of users computes, as texts."""
    if isinstance(codec, FunctionCodec):
        yield from _texts(codec.function)
        return
    yield from _texts(getattr(type(codec), "hash", None))
    for name, value in sorted(getattr(codec, "__dict__", {}).items()):
        yield name
        yield from _texts(value)


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """A function or a value as texts that do not depend on the process; what is not known says nothing."""
    code = getattr(value, "__code__", None)
    if depth > _DEEPEST:
        return
    if isinstance(code, CodeType):
        yield from _code(code, depth)
        for cell in getattr(value, "__closure__", None) or ():
            yield from _texts(_content(cell), depth + 1)
        yield from _texts(getattr(value, "__defaults__", None), depth + 1)
    elif isinstance(value, CodeType):
        yield from _code(value, depth)
    elif isinstance(value, _PLAIN):
        yield repr(value)
    elif isinstance(value, (tuple, list)):
        yield f"({len(value)}"
        for one in value:
            yield from _texts(one, depth + 1)
    elif isinstance(value, (set, frozenset)):
        yield from sorted(text for one in value for text in _texts(one, depth + 1))
    else:
        text = repr(value)
        yield type(value).__qualname__ if " at 0x" in text else text


def _code(code: CodeType, depth: int) -> Iterator[str]:
    """Instructions, global names and constants of code; not its own name, its variables and its place."""
    yield code.co_code.hex()
    # names of what it calls count: to rename a function that the key of a library operator calls is to divide
    # otherwise, for checkpoints (see `operators/key_value.py`)
    yield from code.co_names
    for one in code.co_consts:
        yield from _texts(one, depth + 1)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None
