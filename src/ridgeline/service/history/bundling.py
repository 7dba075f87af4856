"""Bundles: what the web service answers about an application, in one file that a history opens."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import quote, urlencode

from ridgeline.api.errors import RidgelineError
from ridgeline.service.http.bodies import to_json

FORMAT = 1
INDEX = "index.json"
LIVE = "/live"
LOG = "/log"
_LINES = 1000
WINDOWS = 100
"""Windows of which all is kept; of the others there are the summaries."""
_ONCE = (
    *("/info", "/sentence", "/versions", "/configuration", "/specification", "/changes", "/decisions"),
    *("/logicalPlan", "/logicalPlan/attributes", "/logicalPlan/operators", "/physicalPlan"),
    *("/physicalPlan/operators", "/physicalPlan/containers", "/physicalPlan/streams", "/regions"),
    *("/latency", "/criticalPath", "/recordAge", "/progress", "/watermarks", "/throughput"),
    *("/history", "/metrics", "/keys", "/lines", "/stacks", "/marks", "/promises", "/advice", "/debugDump"),
    *("/sinks", "/checkpoints", "/recordings", "/queries"),
)
_OF_OPERATOR = ("", "/aggregation", "/history", "/ports", "/attributes", "/properties")


class Asks(Protocol):
    """Asks a web service: `get` as the client of commands, `whole` for the state that a page gets."""

    def get(self, path: str, **query: str | int) -> Any:
        """The answer to GET. Raises RidgelineError."""

    def whole(self) -> Mapping[str, Any]:
        """The data of the first event of `/live`. Raises RidgelineError."""

    def log(self, limit: int) -> Any:
        """The answer to `/log`, which asks for more than the right to read. Raises RidgelineError."""


def entry_of(path: str, query: Mapping[str, object]) -> str:
    """The name in the bundle of an answer: no path and no query leads out of it.

    >>> entry_of("/latency", {"windowId": 7}), entry_of("/sources/../a", {})
    ('rest/latency@windowId=7.json', 'rest/sources/%2E%2E/a.json')
    """
    parts = [quote(part, safe="").replace(".", "%2E") for part in path.strip("/").split("/")]
    asked = f"@{urlencode(sorted(query.items()))}" if query else ""
    return f"rest/{'/'.join(parts)}{asked.replace('/', '%2F')}.json"


def make_bundle(asks: Asks, file: Path, *, made: float, windows: int = WINDOWS) -> Mapping[str, Any]:
    """Write a bundle, readable for its owner alone; returns its index.

    Args:
        asks: The web service.
        file: The bundle; it must not exist yet.
        made: The present time, seconds since 1970.
        windows: Of so many of the last windows all is kept.

    Raises:
        RidgelineError: If the file exists or cannot be written, or if the application does not answer.
    """
    if file.exists():
        raise RidgelineError(f"`{file}` exists already; give another name with `-o`")
    whole = asks.whole()
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise _unwritable(file, error) from error
    try:
        with os.fdopen(descriptor, "wb") as opened:
            index = _write(asks, whole, opened, made, windows)
        Path(temporary).replace(file)
    except OSError as error:
        raise _unwritable(file, error) from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return index


def _write(
    asks: Asks,
    whole: Mapping[str, Any],
    opened: IO[bytes],
    made: float,
    windows: int,
) -> Mapping[str, Any]:
    """Ask for all, write each answer, and at last the index, which is returned."""
    missing: dict[str, str] = {}
    versions: Any = {}
    with zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(entry_of(LIVE, {}), to_json(whole))
        bundle.writestr(entry_of("/windows", {}), to_json({"windows": whole["windows"]}))
        for path, query in _questions(whole, windows):
            asked = f"{path}?{urlencode(query)}" if query else path
            try:
                answer = asks.get(path, **query)
            except RidgelineError as error:
                missing[asked] = str(error)
                continue
            bundle.writestr(entry_of(path, query), to_json(answer))
            versions = answer if path == "/versions" else versions
        try:
            bundle.writestr(entry_of(LOG, {}), to_json(asks.log(_LINES)))
        except RidgelineError as error:
            missing[LOG] = str(error)
        info, sentence = whole["overview"]["info"], whole.get("sentence") or {}
        index = {
            "bundle": "ridgeline",
            "format": FORMAT,
            "name": info.get("name", ""),
            "application": info.get("id", ""),
            "began": info.get("startTime"),
            "at": whole["overview"].get("at"),
            "made": made,
            "state": sentence.get("state", ""),
            "sentence": sentence.get("text", ""),
            "windows": info.get("stats", {}).get("windowsCommitted"),
            "versions": versions,
            "missing": missing,
        }
        bundle.writestr(INDEX, json.dumps(index, indent=2, allow_nan=False))
    return index


def _questions(whole: Mapping[str, Any], windows: int) -> Iterator[tuple[str, dict[str, str | int]]]:
    """The paths to ask for, with their queries."""
    overview, plan = whole["overview"], whole["plan"]
    for window in whole["windows"][-windows:] if windows else ():  # first, as windows go
        number = window["windowId"]
        region = {"region": window["region"]} if window.get("region") else {}
        yield f"/windows/{number}", dict(region)
        yield "/latency", {"windowId": number, **region}
        yield "/criticalPath", {"windowId": number, **region}
    yield from ((path, {}) for path in _ONCE)
    for operator in plan["operators"]:
        base = f"/logicalPlan/operators/{quote(operator['name'], safe='')}"
        yield from ((f"{base}{part}", {}) for part in _OF_OPERATOR)
    for source in overview["progress"]["sources"]:
        yield f"/sources/{quote(source, safe='')}", {}
    for container in sorted({row["container"] for row in overview["operators"].values()}):
        yield f"/physicalPlan/containers/{container}/stackTrace", {}


def _unwritable(file: Path, error: OSError) -> RidgelineError:
    reason = error.strerror or str(error)
    return RidgelineError(
        f"`{file}` cannot be written: {reason}; give one in a folder that may be written to"
    )
