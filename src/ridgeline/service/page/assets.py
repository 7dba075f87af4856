"""The files of the page, and the headers that keep its browser from anything else."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ridgeline.service import tables

FOLDER: Final = Path(__file__).parent / "assets"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
_STRICT: Final = (b"strict-transport-security", b"max-age=86400")
_NAME: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*\.?[a-z][\w-]*", re.IGNORECASE)
_FRESH, _UNCHANGED, _MISSING = 200, 304, 404


class Assets:
    """The files below `assets`: a path is looked up among those that are there, so none leads elsewhere."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files: dict[str, Callable[[], bytes]] = {
            path.relative_to(folder).as_posix(): path.read_bytes
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES
        }
        self._files["tables.js"] = _tables

    def answer(self, request: Request, name: str) -> Response:
        """The answer with a file; 304 if the browser has it already. Raises HTTPException (404)."""
        read = self._files.get(name)
        if read is None:
            raise HTTPException(_MISSING)
        content = read()
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {
            "cache-control": "no-cache",
            "content-security-policy": _POLICY,
            "etag": tag,
            "vary": "accept",
        }
        if tag in request.headers.get("if-none-match", "").replace(",", " ").split():
            return Response(status_code=_UNCHANGED, headers=headers)
        return Response(content, _FRESH, {**headers, "content-type": _TYPES[PurePath(name).suffix]})


def _tables() -> bytes:
    """The columns of tables, as a module of the page: they are in the table that the terminal draws from."""
    return f"export default {json.dumps(tables.told())};\n".encode()


class SafeHeaders:
    """Adds to every answer what keeps a browser from guessing its type, or passing its address on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the headers."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                added += [_STRICT] if _is_strict(scope) else []
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self._app(scope, receive, sending)


def _is_strict(scope: Scope) -> bool:
    """True if the browser may be held to HTTPS for this host name, which has a certificate of an authority.

    Not for addresses and names of this machine alone, which other programs use as well.
    """
    if scope.get("scheme") != "https":
        return False
    host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return bool(_NAME.fullmatch(name)) and not name.lower().endswith("localhost")


def wants_page(accept: str) -> bool:
    """True for a browser that opens the address, not for a program.

    >>> wants_page("text/html,application/xhtml+xml,*/*;q=0.8"), wants_page("*/*"), wants_page("")
    (True, False, False)
    """
    return any(part.partition(";")[0].strip().lower() == "text/html" for part in accept.split(","))
