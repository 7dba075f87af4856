"""Arrow types in Spark's DDL, lossless casts between Spark types, and the text of Spark's errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pyarrow as pa

from ridgeline.api.support.masking import mask_text

_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.date64(): "date",
}
_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "date": ("timestamp",),
    "timestamp_ntz": ("timestamp",),
}
"""The types to which each type widens without loss, besides itself."""
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def spark_type(kind: pa.DataType) -> str | None:  # noqa: PLR0911  one type after the other
    """The Spark type for an Arrow type, as `DataType.simpleString()` writes it; None if there is none."""
    types = pa.types
    if kind in _NAMES:
        return _NAMES[kind]
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_duration(kind):
        return "interval day to second"
    if types.is_time(kind):
        return "time(6)"
    if types.is_dictionary(kind):
        return spark_type(kind.value_type)
    return _nested_type(kind)


def _nested_type(kind: pa.DataType) -> str | None:
    """As `spark_type`, for lists, maps and structs."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        inner = spark_type(kind.value_type)
        return inner and f"array<{inner}>"
    if types.is_map(kind):
        key, item = spark_type(kind.key_type), spark_type(kind.item_type)
        return key and item and f"map<{key},{item}>"
    if types.is_struct(kind):
        parts = [(field.name, spark_type(field.type)) for field in kind]
        return (
            f"struct<{','.join(f'{name}:{part}' for name, part in parts)}>"
            if all(part for _, part in parts)
            else None
        )
    return None


def loses_nothing(found: str, wanted: str) -> bool:
    """True if each value of one Spark type can be cast to the other and back.

    >>> (
    ...     loses_nothing("int", "bigint"),
    ...     loses_nothing("bigint", "int"),
    ...     loses_nothing("decimal(10,2)", "decimal(38,18)"),
    ... )
    (True, False, True)
    """
    if found == wanted or wanted in _WIDER.get(found, ()):
        return True
    if not wanted.startswith("decimal("):
        return False
    precision, scale = _decimal(wanted)
    if found in _DIGITS:
        return precision - scale >= _DIGITS[found]
    if found.startswith("decimal("):
        found_precision, found_scale = _decimal(found)
        return scale >= found_scale and precision - scale >= found_precision - found_scale
    return False


def what_spark_says(error: Exception) -> str | None:
    """The text of an error that Spark raised, without JVM stack and secrets; None for other errors.

    >>> what_spark_says(ValueError("not of Spark")) is None
    True
    """
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    text = re.sub(r"^An error occurred while calling \w+\.\w+\.?\s*:?\s*([\w.$]+: )?", "", str(error))
    return mask_text(re.split(r"\s*\n\s*at |\s*JVM stacktrace", text, maxsplit=1)[0].strip())


_AWAY = re.compile(
    r"java\.net\.(?:Connect|NoRouteToHost|PortUnreachable|Socket|SocketTimeout|UnknownHost)Exception"
    r"|java\.nio\.channels\.ClosedChannelException|org\.apache\.http\.NoHttpResponseException"
    r"|org\.apache\.http\.conn\.\w*(?:Timeout|HttpHostConnect)Exception|javax\.net\.ssl\.SSLException"
    r"|hadoop\.ipc\.(?:Standby|Retriable)Exception|namenode\.SafeModeException"
    r"|hadoop\.fs\.s3a\.(?:AWSApiCallTimeout|AWSServiceThrottled|AWSStatus500)Exception"
    r"|Unable to execute HTTP request|HTTP (?:response code |status )?(?:500|502|503|504)"
    r"|org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotEnoughReplicas)Exception"
    r"|No space left on device|Disk quota exceeded|Stale file handle|Transport endpoint is not connected"
    r"|Connection (?:refused|reset|timed out|attempt failed)|Communications link failure"
)
_MOST_CAUSES = 20


def why_away(error: Exception) -> str:
    """The cause, in one line, if Spark could not write since a store is away or a disk is full; else ""."""
    for text in _causes(error):
        if found := _AWAY.search(text):
            line = text[text.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
            return mask_text(" ".join(line.split())[:500])
    return ""


def _causes(error: Exception) -> Iterator[str]:
    """The texts of Java for an error and its causes, the last one first."""
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found: list[str] = []
    with contextlib.suppress(Exception):  # Java may be gone
        while thrown is not None and len(found) < _MOST_CAUSES:
            found.append(str(thrown.toString()))
            thrown = thrown.getCause()
    yield from reversed(found)


def _decimal(text: str) -> tuple[int, int]:
    precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)
