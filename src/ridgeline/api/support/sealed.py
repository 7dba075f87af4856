"""Small durable files: JSON with a checksum over content and name; a copy over another file is detected."""

from __future__ import annotations

import json
import zlib
from typing import Any

from ridgeline.api.errors import CheckpointError


def checksum(name: str, content: bytes | memoryview) -> int:
    """The CRC-32 of a name and a content."""
    return zlib.crc32(content, zlib.crc32(name.encode()))


def seal(name: str, content: dict[str, Any] | list[Any]) -> bytes:
    """A line of JSON: an object or a list, with a checksum over it and a name as its last entry."""
    crc32 = f"{checksum(name, _as_json(content)):08x}"
    return _as_json({**content, "crc32": crc32} if isinstance(content, dict) else [*content, crc32]) + b"\n"


def checked(name: str, data: str | bytes) -> Any:
    """The content of what `seal` made. Raises ValueError for anything else, or of another name."""
    content = json.loads(data)
    if not isinstance(content, (dict, list)) or not content:
        raise ValueError("it is no object and no list")
    found = content.pop("crc32", None) if isinstance(content, dict) else content.pop()
    if found != f"{checksum(name, _as_json(content)):08x}":
        raise ValueError("its checksum differs, so it is damaged or a copy of another file")
    return content


def unseal(name: str, data: bytes, what: str, format: int) -> dict[str, Any]:
    """The content of what `seal` made, which has a `format`: this one.

    Raises CheckpointError, which calls it `what`, if it is damaged, was made for another name or has another
    format.
    """
    content: dict[str, Any] = {}
    try:
        content = checked(name, data)
        written = content["format"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        written = _earlier_format(data)
        if written in (None, format):
            reason = error if type(error) is ValueError else f"{type(error).__name__}: {error}"
            raise CheckpointError(f"{what} is corrupt: {reason}; restore it from a copy") from error
    if written != format:
        raise CheckpointError(
            f"{what} has format {written}; this version reads {format}; run it with the version that wrote it"
        )
    return content


def _earlier_format(data: bytes) -> object:
    """The format of a file as earlier versions wrote them: without a checksum, or in a part of its own."""
    try:
        found = json.loads(data)
        parts = [found, *found.values()]
    except (ValueError, AttributeError, RecursionError):
        return None
    if isinstance(found.get("crc32"), str):
        return None
    return next((part["format"] for part in parts if isinstance(part, dict) and "format" in part), None)


def _as_json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
