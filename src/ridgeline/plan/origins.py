"""Name the file that a faulty part of an application comes from, where a specification includes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ridgeline.api.errors import Fault


def with_origins(faults: Sequence[Fault], origins: Mapping[str, str]) -> list[Fault]:
    """Faults, each with the file of what it is about. `origins`: as `Application.origins`.

    >>> fault = Fault("totals.limit", "is 5", "give 6")
    >>> [found.what for found in with_origins([fault], {"operators.totals": "common.yaml"})]
    ['is 5 (in `common.yaml`)']
    """
    files: dict[str, str] = {}
    for part, file in origins.items():
        files[part.partition(".")[2] or part] = files[part] = file
    found = []
    for fault in faults:
        inside = [part for part in files if _is_in(fault.where, part)]
        file = files[max(inside, key=len)] if inside else ""
        found.append(replace(fault, what=f"{fault.what} (in `{file}`)") if file else fault)
    return found


def _is_in(where: str, part: str) -> bool:
    return where == part or where.startswith((f"{part}.", f"{part} "))
