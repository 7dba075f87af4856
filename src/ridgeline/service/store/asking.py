"""Asks applications how they do, all at once: one that hangs or is gone holds up no other."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections.abc import Sequence
from typing import Any, Final

import h11
from starlette.concurrency import run_in_threadpool
from typing_extensions import TypedDict

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.service.registry import Entry
from ridgeline.service.tls.calling import caller_of, tls_problem

_BASE: Final = "/ws/v2/stram"
_ANSWER_SECONDS: Final = 3.0
"""How long one application may take for an answer, from the connection to its last byte."""
_AT_ONCE = 100
_LARGEST = 1_000_000
_LONGEST_REASON, _LONGEST_SENTENCE = 200, 2000
_STATES = {"starting", "ok", "behind", "stuck", "failed", "ended"}
_OK, _REFUSED = 200, (401, 403)


class Said(TypedDict):
    """What an application says of itself.

    `state` is that of its sentence. It is `silent` if there is no answer in time, `gone` if nothing answers,
    `refused` without its token, `strange` if something else answers. `problem`: why there is no sentence.
    """

    state: str
    sentence: str
    problem: str


class _StrangeError(Exception):
    """An answer that no application gives, or an error. `status`: that of the answer, if it is known."""

    def __init__(self, status: int = 0) -> None:
        super().__init__(status)
        self.status = status


def ask(entries: Sequence[Entry]) -> list[Said]:
    """The answer of each, in the same order, once all have answered or are late."""
    return asyncio.run(_ask_all(entries)) if entries else []


async def _ask_all(entries: Sequence[Entry]) -> list[Said]:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(entry: Entry) -> Said:
        async with places:
            return await _ask(entry)

    return await asyncio.gather(*map(one, entries))


async def _ask(entry: Entry) -> Said:
    """An application's sentence, or the reason why there is none."""
    try:
        state, text = await _sentence(entry)
    except Exception as error:  # noqa: BLE001  whatever answers there, the others are shown
        state, problem = _why(entry, error)
        return {"state": state, "sentence": "", "problem": problem}
    return {"state": state, "sentence": _line(text), "problem": ""}


def _line(text: str) -> str:
    """One line without what could reorder or hide a part of it."""
    shown = printable(" ".join(text[: 4 * _LONGEST_SENTENCE].split()))
    return shown if len(shown) <= _LONGEST_SENTENCE else shown[: _LONGEST_SENTENCE - 1] + "…"


def _why(entry: Entry, error: Exception) -> tuple[str, str]:  # noqa: PLR0911  a case each
    """State and words for an application that gave no sentence."""
    if isinstance(error, TimeoutError):
        return "silent", f"no answer within {_ANSWER_SECONDS:g} s"
    if isinstance(error, _StrangeError) and error.status in _REFUSED:
        if entry.token:
            return "refused", "it does not accept this token: give another one by `--token`"
        return "refused", "it asks for a token: give it by `--token`"
    if isinstance(error, RidgelineError) or tls_problem(entry.url, error):
        return "refused", printable(tls_problem(entry.url, error) or str(error))
    if isinstance(error, ConnectionRefusedError):
        return "gone", "nothing answers there: it may have ended"
    if isinstance(error, OSError):
        return "gone", f"it cannot be reached: {printable(str(error.strerror or error))[:_LONGEST_REASON]}"
    return "strange", "what answers there is no application of Ridgeline, or of another version"


async def _sentence(entry: Entry) -> tuple[str, str]:
    """State and text of an application's sentence; an answer that comes byte by byte is late, too.

    Raises:
        OSError, TimeoutError: It cannot be reached, or is late.
        _StrangeError, h11.ProtocolError, ValueError: It answers something else.
    """
    async with asyncio.timeout(_ANSWER_SECONDS):
        status, document = await _exchange(entry, "/sentence")
    if status != _OK:
        raise _StrangeError(status)
    try:
        answer = json.loads(document)
    except RecursionError:
        answer = None  # no answer of ours is nested so deeply
    known = isinstance(answer, dict) and answer.get("state") in _STATES
    if not known or not isinstance(answer.get("text"), str):
        raise _StrangeError
    return answer["state"], answer["text"]


async def _exchange(entry: Entry, path: str) -> tuple[int, bytes]:
    """Status and body of one request, over a connection of its own."""
    parts = urllib.parse.urlsplit(entry.url)
    secure = parts.scheme == "https"
    caller = await run_in_threadpool(caller_of, entry.url) if secure else None
    reader, writer = await asyncio.open_connection(
        parts.hostname,
        parts.port or (443 if secure else 80),
        ssl=None if caller is None else caller.context,
    )
    try:
        if caller is not None:
            caller.check(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        connection = h11.Connection(h11.CLIENT)
        headers = [("host", parts.netloc), ("accept", "application/json"), ("connection", "close")]
        if entry.token:
            headers.append(("authorization", f"Bearer {entry.token}"))
        request = h11.Request(method="GET", target=f"{_BASE}{path}", headers=headers)
        for event in (request, h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        status, document = 0, b""
        while True:
            got: Any = connection.next_event()
            if got is h11.NEED_DATA:
                connection.receive_data(await reader.read(65_536))
            elif isinstance(got, h11.Response):
                status = got.status_code
            elif isinstance(got, h11.Data):
                document += got.data
                if len(document) > _LARGEST:
                    raise _StrangeError
            elif isinstance(got, (h11.EndOfMessage, h11.ConnectionClosed)):
                return status, document
    finally:
        writer.transport.abort()
