"""Stream codecs: hashes that assign tuples to partitions, the same on every machine, and serialisation."""

from __future__ import annotations

import enum
import struct
import uuid
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from operator import length_hint
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import Buffer

from ridgeline.api.columns.casting import filled
from ridgeline.api.columns.holding import plain_key
from ridgeline.api.columns.nulls import NAN
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.struct_types import EPOCH
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import RidgelineError, described, shorten

Hashes = npt.NDArray[np.uint64]
_MASK64 = (1 << 64) - 1
_INT64 = 2.0**63
_BLOCK = 1 << 15
"""Values that are mixed at a time: they stay in the processor's cache."""
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


def mix(values: Hashes) -> Hashes:
    """Spread the bits of 64-bit integers: the finaliser of splitmix64 (Steele et al., OOPSLA 2014)."""
    mixed = np.empty(len(values), np.uint64)
    for begin in range(0, len(values), _BLOCK):  # in place, as large arrays are limited by memory
        block = np.add(
            values[begin : begin + _BLOCK], np.uint64(0x9E3779B97F4A7C15), out=mixed[begin : begin + _BLOCK]
        )
        block ^= block >> np.uint64(30)
        block *= np.uint64(0xBF58476D1CE4E5B9)
        block ^= block >> np.uint64(27)
        block *= np.uint64(0x94D049BB133111EB)
        block ^= block >> np.uint64(31)
    return mixed


def _mix_one(value: int) -> int:
    """`mix` of one value."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK64
    return value ^ (value >> 31)


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", NAN if value != value else value), "little")  # noqa: PLR0124  all NaN are one


def _decimal_bits(value: Decimal) -> int:
    """64 bits of a Decimal; those of the int or float that equals it, if there is one."""
    if not value.is_finite():
        return _bits(float("nan") if value.is_nan() else float(value))
    sign, digits, exponent = value.normalize(_EXACT).as_tuple()
    number = int("".join(map(str, digits)))
    if isinstance(exponent, int) and exponent >= 0:
        return (-1 if sign else 1) * number * pow(10, exponent, 1 << 64) & _MASK64
    as_float = float(value)
    return (
        _bits(as_float) if Decimal(as_float) == value else zlib.crc32(f"{sign}:{number}:{exponent}".encode())
    )


def stable_hash(value: Any) -> int:  # noqa: C901, PLR0911, PLR0912  one return per kind of value
    """A 64-bit hash of a key that never depends on process, machine or PYTHONHASHSEED.

    Equal numbers have equal hashes: 1, 1.0, True, `Decimal("1.00")`. All NaN have one hash. `hash_columns`
    returns the same hash for the same key in an Arrow column. Raises TypeError for a value that cannot be a
    key.

    Example:
        >>> from ridgeline import stable_hash
        >>> stable_hash("account 7") % 4
        1
        >>> stable_hash(1) == stable_hash(1.0)
        True
    """
    if type(value) is int:  # first: the most frequent kinds cost least
        return _mix_one(value & _MASK64)
    if type(value) is str:
        return _mix_one(zlib.crc32(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (enum.Enum, uuid.UUID)):
        value = plain_key(value)
    if isinstance(value, (tuple, list)):
        total = stable_hash(value[0]) if value else 0
        for part in value[1:]:
            total = _mix_one((total * 31 + stable_hash(part)) & _MASK64)
        return total
    if value is None:
        return 0
    if isinstance(value, (bool, int)):
        return _mix_one(int(value) & _MASK64)
    if isinstance(value, str):
        return _mix_one(zlib.crc32(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, float):
        return _mix_one(int(value) & _MASK64 if value.is_integer() else _bits(value))
    if isinstance(value, Decimal):
        return _mix_one(_decimal_bits(value))
    if isinstance(value, (bytes, bytearray)):
        return _mix_one(zlib.crc32(value))
    if isinstance(value, datetime):
        aware = value.replace(tzinfo=UTC) if value.utcoffset() is None else value
        whole = aware - EPOCH
        return _mix_one(((whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds) & _MASK64)
    if isinstance(value, date):
        return _mix_one((value.toordinal() - 719_163) & _MASK64)
    known = "int, str, bytes, float, bool, Decimal, date, datetime or a tuple of them"
    raise TypeError(f"a {type(value).__name__} cannot be a key; use {known}")


def _float_bits(values: npt.NDArray[np.float64]) -> Hashes:
    """The 64 bits of each value that `stable_hash` mixes: of the integer that it equals, else its own."""
    # NaNs have many bit patterns, but are one key
    values = np.where(np.isnan(values), NAN, values)
    whole = np.trunc(values) == values
    if not whole.any():
        return values.view(np.uint64)
    small = np.abs(values) < _INT64
    bits = np.where(
        whole & small, np.where(small, values, 0.0).astype(np.int64).view(np.uint64), values.view(np.uint64)
    )
    # floats beyond int64 equal Python ints, whose low 64 bits count
    for position in np.flatnonzero(whole & ~small & np.isfinite(values)).tolist():
        bits[position] = int(values[position]) & _MASK64
    return bits


def hash_column(column: pa.Array) -> Hashes:
    """The stable hash of each value of an Arrow array; null hashes to 0."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    ):
        encoded = column.dictionary_encode()
        # each distinct text is hashed once, as keys repeat
        words = encoded.dictionary.cast(pa.large_binary()).to_pylist()
        table = np.append(mix(np.fromiter(map(zlib.crc32, words), np.uint64, len(words))), np.uint64(0))
        hashes: Hashes = table[encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)]
        return hashes
    if pa.types.is_floating(kind):
        hashes = mix(_float_bits(filled(column.cast(pa.float64()), 0.0)))
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        wide = pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()
        hashes = mix(filled(column.cast(wide), 0).view(np.uint64))
    elif pa.types.is_timestamp(kind):
        whole = column.cast(
            pa.timestamp("us", kind.tz), safe=False
        )  # what is finer than a microsecond does not count
        hashes = mix(filled(whole.cast(pa.int64()), 0).view(np.uint64))
    elif pa.types.is_date32(kind):
        hashes = mix(filled(column.cast(pa.int32()).cast(pa.int64()), 0).view(np.uint64))
    else:
        return np.fromiter(map(stable_hash, column.to_pylist()), np.uint64, len(column))
    if column.null_count:
        hashes = np.where(pc.is_null(column).to_numpy(zero_copy_only=False), np.uint64(0), hashes)
    return hashes


def hash_columns(batch: pa.RecordBatch, names: Sequence[str]) -> Hashes:
    """The stable hash of each row's key columns; several columns hash like the tuple of their values.

    Raises KeyError.
    """
    total = hash_column(batch.column(names[0]))
    for name in names[1:]:
        total = mix(total * np.uint64(31) + hash_column(batch.column(name)))
    return total


class StreamCodec:
    """How the tuples of an input port are divided and sent: `InputPort(Payment, codec=ByAccount())`.

    A codec that implements `hash` divides them among partitions, in place of the port's `key`. Override
    `hashes` if whole batches can be hashed faster.

    A codec that implements `encode` and `decode` serialises them between containers, in place of Arrow.
    Override `encode_all` and `decode_all` to serialise a sequence of tuples at once. Within a container, and
    between containers of one process, tuples are passed on as they are. So `decode` must return what `encode`
    got; `run_local` always encodes between containers.

    Example:
        >>> import json
        >>> from typing import NamedTuple
        >>> from ridgeline import StreamCodec, stable_hash
        >>> class Payment(NamedTuple):
        ...     account: str
        ...     cents: int
        >>> class ByBank(StreamCodec):
        ...     def hash(self, tuple: Payment) -> int:
        ...         return stable_hash(tuple.account[:2])
        ...
        ...     def encode(self, tuple: Payment) -> bytes:
        ...         return json.dumps(tuple).encode()
        ...
        ...     def decode(self, data: bytes) -> Payment:
        ...         return Payment(*json.loads(data))
        >>> by_bank = ByBank()
        >>> by_bank.hash(Payment("DE12", 1)) == by_bank.hash(Payment("DE34", 2))
        True
        >>> by_bank.decode(by_bank.encode(Payment("DE12", 1)))
        Payment(account='DE12', cents=1)
    """

    def hash(self, tuple: Any) -> int:
        """Any integer, the same in every process; equal for tuples of one partition. See `stable_hash`."""
        raise NotImplementedError

    def encode(self, tuple: Any) -> bytes:
        """The bytes of one tuple, in the form in which its input port takes it."""
        raise NotImplementedError

    def decode(self, data: bytes) -> Any:
        """The tuple of these bytes. Raises any Exception for what it cannot decode."""
        raise NotImplementedError

    def encode_all(self, tuples: Tuples) -> Buffer:
        """The bytes of a sequence of tuples: by default the length of each, then what `encode` gives."""
        parts = [self.encode(row) for row in tuples.rows]
        return b"".join((np.fromiter(map(len, parts), "<u4", len(parts)).tobytes(), *parts))

    def decode_all(self, data: memoryview, count: int, schema: Schema) -> Sequence[Any] | Tuples:
        """The `count` tuples of these bytes, for an input port with this schema. Raises any Exception."""
        lengths = np.frombuffer(data[: 4 * count], "<u4").tolist()
        begin, rows = 4 * count, []
        for length in lengths:
            rows.append(self.decode(bytes(data[begin : begin + length])))
            begin += length
        return rows

    @property
    def divides(self) -> bool:
        """True if it implements `hash` or `hashes`."""
        return overrides(self, "hash") or overrides(self, "hashes")

    @property
    def serialises(self) -> bool:
        """True if it implements both ways of serialisation."""
        return (overrides(self, "encode") or overrides(self, "encode_all")) and (
            overrides(self, "decode") or overrides(self, "decode_all")
        )

    def hashes(self, tuples: Tuples) -> Hashes:
        """One 64-bit hash per tuple. Raises RidgelineError for a tuple that `hash` raises for."""
        rows = iter(tuples.rows)
        try:
            return np.fromiter((int(self.hash(row)) & _MASK64 for row in rows), np.uint64, len(tuples))
        except Exception as error:
            row = tuples.rows[len(tuples) - length_hint(rows) - 1]
            what = f"the key of {shorten(row)} cannot be computed: {described(error)}"
            raise RidgelineError(f"{what}; give the port another `key`") from error

    def key_columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """The columns that `hash` hashes with `stable_hash`; None if it hashes anything else.

        The plan uses them to check that equal keys of two ports go to the same partition. `schema`: the
        port's.
        """
        return None


def overrides(codec: StreamCodec, method: str) -> bool:
    """True if a codec implements a method of `StreamCodec` itself."""
    return getattr(type(codec), method) is not getattr(StreamCodec, method)


class ColumnCodec(StreamCodec):
    """Hashes one or several columns; the codec of a port with `key="account"`."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)

    def hash(self, tuple: Any) -> int:
        """The stable hash of the key columns' values."""
        values = [tuple[name] if isinstance(tuple, dict) else getattr(tuple, name) for name in self.columns]
        return stable_hash(values[0] if len(values) == 1 else values)

    def hashes(self, tuples: Tuples) -> Hashes:
        """The hash of each row, vectorised over the Arrow columns."""
        return hash_columns(tuples.batch, self.columns)

    def key_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        """The columns passed to the constructor."""
        return self.columns


class FunctionCodec(StreamCodec):
    """Hashes the result of a function of the tuple; the codec of a port with `key=lambda tuple: ...`."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def hash(self, tuple: Any) -> int:
        """The stable hash of the function's result."""
        return stable_hash(self.function(tuple))
