"""Checksums over a file's content and name: a file copied over another one is detected."""

from __future__ import annotations

import json
import zlib
from typing import Any

from ridgeline.api.errors import CheckpointError


def checksum(name: str, content: bytes | memoryview) -> int:
    """The CRC-32 of a name and a content."""
    return zlib.crc32(content, zlib.crc32(name.encode()))


def with_checksum(name: str, content: dict[str, Any] | list[Any]) -> str:
    """JSON of an object or a list, with a checksum over it and a name as its last entry."""
    crc32 = f"{checksum(name, _as_json(content).encode()):08x}"
    return _as_json({**content, "crc32": crc32} if isinstance(content, dict) else [*content, crc32])


def checked(name: str, text: str | bytes) -> Any:
    """The content of what `with_checksum` made. Raises ValueError for anything else, or of another name."""
    content = json.loads(text)
    if not isinstance(content, (dict, list)) or not content:
        raise ValueError("it is no object and no list")
    found = content.pop("crc32", None) if isinstance(content, dict) else content.pop()
    if found != f"{checksum(name, _as_json(content).encode()):08x}":
        raise ValueError("its checksum differs, so it is damaged or a copy of another one")
    return content


def _as_json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))


def seal(kind: str, name: str, content: object) -> bytes:
    """A line of JSON: the content under the key `kind`, beside the checksum of its text and `name`."""
    body = _as_json(content)
    return f'{{"crc32":{checksum(name, body.encode())},"{kind}":{body}}}\n'.encode()


def unseal(kind: str, name: str, data: bytes, what: str, format: int) -> Any:
    """The content of what `seal` made, of this `format`.

    Raises CheckpointError, which calls it `what`, if it is damaged, was made for another name or has another
    format.
    """
    try:
        text = data.decode()
        document = json.loads(text)
        if kind not in document and "format" in document:  # from before there were checksums
            raise _other_format(what, document["format"], format)
        body = text[text.index(key := f'"{kind}":') + len(key) : text.rindex("}")].encode()
        content, found = document[kind], document["crc32"]
        formed = data == f'{{"crc32":{found},"{kind}":'.encode() + body + b"}\n"
        written = content["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{what} is corrupt: {type(error).__name__}: {error}; restore it from a copy"
        ) from error
    if found in (checksum(name, body), zlib.crc32(body)) and written != format:
        raise _other_format(what, written, format)
    if not formed or found != checksum(name, body):
        found = "its checksum differs, so it is damaged or a copy of another file"
        raise CheckpointError(f"{what} is corrupt: {found}; restore it from a copy")
    return content


def _other_format(what: str, found: object, wanted: int) -> CheckpointError:
    return CheckpointError(
        f"{what} has format {found}; this version reads {wanted}; run it with the version that wrote it"
    )
