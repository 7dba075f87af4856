"""Asks applications how they do, all at once: one that hangs or is gone holds up no other."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import h11
from starlette.concurrency import run_in_threadpool
from typing_extensions import TypedDict

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.service.registry import Entry
from ridgeline.service.tls.calling import Caller, caller_of, tls_problem

BASE: Final = "/ws/v2/stram"
ANSWER_SECONDS: Final = 3.0
"""How long one application may take for an answer, from the connection to its last byte."""
_EVERY_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 30.0
_FIRST_LOOK_SECONDS = 0.3
"""How long an answer waits for those that are asked just now."""
_AT_ONCE = 100
_LARGEST = 1_000_000
_KEPT_GONE = 50
_LONGEST_NAME, _LONGEST_SENTENCE = 200, 2000
_STATES = {"starting", "ok", "behind", "stuck", "failed", "ended"}
_OK, _REFUSED = 200, (401, 403)
Calling = Callable[[str], Caller]


class ListedAnswer(TypedDict):
    """An application in the list."""

    key: Annotated[str, "Its place in the paths of this service."]
    url: Annotated[str, "The address of its page."]
    id: Annotated[str, "Id of the run; empty: not known."]
    name: Annotated[str, "Its name; its address until it has answered."]
    user: Annotated[str, "Who started it; empty: not known."]
    host: Annotated[str, "The host of its driver; empty: not known."]
    startTime: Annotated[float | None, "When the run began, seconds since 1970."]
    state: Annotated[
        str,
        "That of its sentence; `asking` before the first answer, `silent` if it does not answer in time, "
        "`gone` if nothing answers or it has left the registry, `refused` without its token, `strange` if "
        "something else answers.",
    ]
    sentence: Annotated[str, "The sentence that it said last; empty: none yet."]
    saidAt: Annotated[float | None, "When it said that, seconds since 1970."]
    problem: Annotated[str, "Why there is no newer sentence, and the remedy; empty: there is no problem."]


class ListAnswer(TypedDict):
    """The applications, by name."""

    at: Annotated[float, "Now, seconds since 1970."]
    apps: Annotated[list[ListedAnswer], "The applications."]
    problem: Annotated[str, "Why the registry cannot be read; empty: it can."]


@dataclass
class _Listed:
    """An application in the list, and what is known of it. Of one event loop."""

    entry: Entry
    given: bool
    state: str = "asking"
    sentence: str = ""
    said_at: float | None = None
    problem: str = ""
    due: float = -math.inf
    pause: float = 0.0
    described: bool = False
    left_at: float | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class _StrangeError(Exception):
    """An answer that no application gives, or an error."""


class Asking:
    """The applications of the registry and of addresses, which are asked only while someone looks.

    Args:
        given: Applications at addresses that were given; `name` may be empty.
        registered: Those of this machine, as `registry.running` has them.
        clock: For tests.
        calling: How one at an `https` address is called.
    """

    def __init__(
        self,
        given: Sequence[Entry],
        registered: Callable[[], Sequence[Entry]],
        clock: Clock | None = None,
        calling: Calling = caller_of,
    ) -> None:
        self._clock = clock or SystemClock()
        self._calling = calling
        self._registered = registered
        self._apps: dict[str, _Listed] = {key_of(one.url): _Listed(one, given=True) for one in given}
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._problem = ""

    def close(self) -> None:
        """Nothing is under way without a request; those end with their event loop. May be called twice."""

    async def answer(self) -> ListAnswer:
        """All applications, with what is known of them now; those that are due are asked meanwhile."""
        await self._read_registry()
        now = self._clock.monotonic()
        for one in self._apps.values():
            if one.left_at is None and one.task is None and one.due <= now:
                one.task = asyncio.create_task(self._ask(one))
        new = [one.task for one in self._apps.values() if one.task is not None]
        if new:
            await asyncio.wait(new, timeout=_FIRST_LOOK_SECONDS)
        rows = sorted(self._apps.items(), key=lambda item: (item[1].entry.name, item[1].entry.started))
        return {
            "at": self._clock.wall(),
            "apps": [_row(key, one) for key, one in rows],
            "problem": self._problem,
        }

    async def page(self, key: str) -> str:
        """The address of an application's page, with the right to change it if its token is known.

        Raises KeyError if there is no such application.
        """
        entry = self._apps[key].entry
        if entry.token:
            with contextlib.suppress(*_FAULTS):
                answer = await _asked(entry, "/page", "POST", self._calling)
                path = answer.get("path")
                if isinstance(path, str) and path.startswith("/#code="):
                    return entry.url + path
        return f"{entry.url}/"

    async def _read_registry(self) -> None:
        """Take in what the registry has now; those that have left it are kept for a while, as gone."""
        try:
            entries = await run_in_threadpool(self._registered)
            self._problem = ""
        except RidgelineError as error:
            self._problem = printable(str(error))
            return
        there = {key_of(entry.url): entry for entry in entries}
        for key, entry in there.items():
            known = self._apps.get(key)
            if known is None or known.entry != entry or known.left_at is not None:
                self._apps[key] = _Listed(entry, given=known is not None and known.given, described=True)
        for key, one in self._apps.items():
            if key not in there and not one.given and one.left_at is None:
                one.left_at = self._clock.wall()
                one.state, one.problem = "gone", "it has ended: the registry has it no more"
        gone = sorted((one.left_at, key) for key, one in self._apps.items() if one.left_at is not None)
        for _, key in gone[:-_KEPT_GONE]:
            del self._apps[key]

    async def _ask(self, one: _Listed) -> None:
        """Take an application's sentence, or the reason why there is none."""
        try:
            async with self._places:
                said = await _asked(one.entry, "/sentence", calling=self._calling)
                if not one.described:
                    _describe(one, await _asked(one.entry, "/info", calling=self._calling))
            one.state, one.sentence = _said(said)
            one.said_at, one.problem, one.pause = self._clock.wall(), "", 0.0
        except Exception as error:  # noqa: BLE001  whatever answers there, the list goes on
            one.state, one.problem = _why(one.entry, error)
            one.pause = min(max(one.pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
            one.described = one.described and bool(one.entry.id) and not one.given
        finally:
            one.due = self._clock.monotonic() + (one.pause or _EVERY_SECONDS)
            one.task = None


def key_of(url: str) -> str:
    """The name of an application in paths, made of its address.

    >>> key_of("http://127.0.0.1:4040")
    'd7a4b97494671873'
    """
    return hashlib.sha256(url.encode(errors="replace")).hexdigest()[:16]


def _row(key: str, one: _Listed) -> ListedAnswer:
    """The answer about one application: texts as one line each, and no token."""
    entry = one.entry
    return {
        "key": key,
        "url": f"{entry.url}/" if entry.url.startswith(("http://", "https://")) else "",
        "id": _line(entry.id, _LONGEST_NAME),
        "name": _line(entry.name, _LONGEST_NAME) or entry.url.partition("://")[2],
        "user": _line(entry.user, _LONGEST_NAME),
        "host": _line(entry.host, _LONGEST_NAME),
        "startTime": entry.started or None,
        "state": one.state,
        "sentence": one.sentence,
        "saidAt": one.said_at,
        "problem": one.problem,
    }


def _said(answer: Mapping[str, Any]) -> tuple[str, str]:
    """State and text of a sentence. Raises _StrangeError for an answer that is none."""
    state, text = answer.get("state"), answer.get("text")
    if state not in _STATES or not isinstance(text, str):
        raise _StrangeError
    return state, _line(text, _LONGEST_SENTENCE)


def _describe(one: _Listed, info: Mapping[str, Any]) -> None:
    """Take name and start of an application at an address from its `/info`."""
    texts = {name: info[name] for name in ("id", "name", "user") if isinstance(info.get(name), str)}
    started = info.get("startTime")
    known = isinstance(started, (int, float)) and math.isfinite(started)
    host = urllib.parse.urlsplit(one.entry.url).hostname or ""
    entry = one.entry
    one.entry = Entry(
        texts.get("id", ""),
        texts.get("name", ""),
        entry.url,
        entry.token,
        host=host,
        started=float(started) if known and started is not None else 0.0,
        user=texts.get("user", ""),
    )
    one.described = True


def _line(text: str, longest: int) -> str:
    """One line without what could reorder or hide a part of it."""
    shown = printable(" ".join(text[: 4 * longest].split()))
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def _why(entry: Entry, error: Exception) -> tuple[str, str]:  # noqa: PLR0911  a case each
    """State and words for an application that gave no sentence."""
    if isinstance(error, TimeoutError):
        return "silent", f"no answer within {ANSWER_SECONDS:g} s"
    if isinstance(error, _StatusError) and error.status in _REFUSED:
        if entry.token:
            return "refused", "it does not accept this token: give another one by `--token`"
        return "refused", f"it asks for a token: `ridgeline web {entry.url} --token TOKEN`"
    if isinstance(error, RidgelineError) or tls_problem(entry.url, error):
        return "refused", printable(tls_problem(entry.url, error) or str(error))
    if isinstance(error, ConnectionRefusedError):
        return "gone", "nothing answers there: it may have ended"
    if isinstance(error, OSError):
        return "gone", f"it cannot be reached: {printable(str(error.strerror or error))[:_LONGEST_NAME]}"
    return "strange", "what answers there is no application of Ridgeline, or of another version"


_FAULTS = (OSError, TimeoutError, h11.ProtocolError, _StrangeError, ValueError, RidgelineError)
"""The errors of a question to an application."""


class _StatusError(_StrangeError):
    """An answer with a status that is no success."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def _asked(
    entry: Entry, path: str, method: str = "GET", calling: Calling = caller_of
) -> Mapping[str, Any]:
    """The answer of an application, a JSON object, within `ANSWER_SECONDS`.

    The time is for all of it: an answer that comes byte by byte is late, too.

    Raises:
        OSError, TimeoutError: It cannot be reached, or is late.
        _StrangeError, h11.ProtocolError, ValueError: It answers something else.
    """
    async with asyncio.timeout(ANSWER_SECONDS):
        status, document = await _exchange(entry, path, method, calling)
    if status != _OK:
        raise _StatusError(status)
    try:
        answer = json.loads(document)
    except RecursionError:
        answer = None  # no answer of ours is nested so deeply
    if not isinstance(answer, dict):
        raise _StrangeError
    return answer


async def _exchange(entry: Entry, path: str, method: str, calling: Calling) -> tuple[int, bytes]:
    """Status and body of one request, over a connection of its own."""
    parts = urllib.parse.urlsplit(entry.url)
    secure = parts.scheme == "https"
    caller = await run_in_threadpool(calling, entry.url) if secure else None
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
        body = b"{}" if method == "POST" else b""
        if body:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        sent = [h11.Request(method=method, target=f"{BASE}{path}", headers=headers)]
        events: list[Any] = [*sent, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()]
        for event in events:
            writer.write(connection.send(event) or b"")
        status, document = 0, b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                document += event.data
                if len(document) > _LARGEST:
                    raise _StrangeError
            elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
                return status, document
    finally:
        writer.transport.abort()
