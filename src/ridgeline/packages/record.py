"""The list of a wheel's files with their digests: what differs from it is damaged or was changed."""

from __future__ import annotations

import base64
import csv
import hashlib
import io

from ridgeline.packages.zipped import ZippedFiles, fault

_ALGORITHMS = frozenset({"sha256", "sha384", "sha512"})
_UNLISTED = ("RECORD", "RECORD.jws", "RECORD.p7s")
_REMEDY = "build it again, or copy it again"


def check_record(files: ZippedFiles, info: str, *, required: bool) -> None:
    """Compare all files with the list in the folder `info`. Without a list every file is read to its end.

    Raises PackageError.
    """
    unlisted = {f"{info}/{name}" for name in _UNLISTED}
    listed = _listed(files, f"{info}/RECORD", required=required)
    for name in files.names:
        if name in unlisted or listed is None:
            _digest(files, name, "sha256")
            continue
        algorithm, _, digest = listed.pop(name, "").partition("=")
        if algorithm not in _ALGORITHMS:
            raise fault(
                files.path, f"has `{name}`, which its list of files (`RECORD`) has no digest of", _REMEDY
            )
        if _digest(files, name, algorithm) != digest.rstrip("="):
            raise fault(files.path, f"has another `{name}` than was built: its digest differs", _REMEDY)
    if missing := sorted(set(listed or ()) - unlisted):
        raise fault(files.path, f"lacks `{missing[0]}`, which its list of files (`RECORD`) names", _REMEDY)


def _listed(files: ZippedFiles, record: str, *, required: bool) -> dict[str, str] | None:
    """Algorithm and digest of each file in the list; None if there is no list. Raises PackageError."""
    if record not in files.names:
        if required:
            raise fault(files.path, f"has no list of its files (`{record}`)", _REMEDY)
        return None
    try:
        rows = list(csv.reader(io.StringIO(files.read(record).decode("utf-8"))))
        return {row[0]: row[1] for row in rows if row}
    except (UnicodeDecodeError, csv.Error, IndexError):
        raise fault(
            files.path, f"has a list of its files (`{record}`) that cannot be read", _REMEDY
        ) from None


def _digest(files: ZippedFiles, name: str, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with files.opened(name) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
