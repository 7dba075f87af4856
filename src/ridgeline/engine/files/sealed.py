"""Checksums over a file's content and name: a file copied over another one is detected."""

from __future__ import annotations

import json
import zlib
from typing import Any

from ridgeline.api.errors import CheckpointError


def checksum(name: str, content: bytes | memoryview) -> int:
    """The CRC-32 of a name and a content."""
    return zlib.crc32(content, zlib.crc32(name.encode()))


def seal(kind: str, name: str, content: object) -> bytes:
    """A line of JSON: the content under the key `kind`, beside the checksum of its text and `name`."""
    body = json.dumps(content, separators=(",", ":"))
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
