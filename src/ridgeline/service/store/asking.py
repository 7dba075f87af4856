"""Asks applications how they do, all at once: one that hangs or is gone holds up no other."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.service import BASE
from ridgeline.service.registry import Entry
from ridgeline.service.tls.calling import opener_of, tls_problem

_ANSWER_SECONDS: Final = 3.0
"""How long one application may take for an answer, from the connection to its last byte."""
_AT_ONCE = 100
_LARGEST = 1_000_000
_LONGEST_REASON, _LONGEST_SENTENCE = 200, 2000
_STATES = {"starting", "ok", "behind", "stuck", "failed", "ended"}
_REFUSED = (401, 403)


class Said(NamedTuple):
    """What an application says of itself.

    `state` is that of its sentence. It is `silent` if there is no answer in time, `gone` if nothing answers,
    `refused` without its token, `strange` if something else answers. `words`: its sentence, or why there is
    none.
    """

    state: str
    words: str


_LATE = Said("silent", f"no answer within {_ANSWER_SECONDS:g} s")


class _StrangeError(Exception):
    """An answer that no application gives."""


def ask(entries: Sequence[Entry]) -> list[Said]:
    """The answer of each, in the same order, once all have answered or are late."""
    found, clock = [_LATE for _ in entries], SystemClock()

    def note(place: int) -> None:
        found[place] = _ask(entries[place])

    for first in range(0, len(entries), _AT_ONCE):
        places = range(first, min(first + _AT_ONCE, len(entries)))
        # Not those of a pool: the command need not wait for one that hangs before it ends.
        threads = [threading.Thread(target=note, args=(place,), daemon=True) for place in places]
        for thread in threads:
            thread.start()
        until = clock.monotonic() + _ANSWER_SECONDS  # an answer that comes byte by byte is late, too
        for thread in threads:
            thread.join(max(0.0, until - clock.monotonic()))
    return list(found)


def _ask(entry: Entry) -> Said:
    """An application's sentence, or the reason why there is none."""
    try:
        state, text = _sentence(entry)
    except Exception as error:  # noqa: BLE001  whatever answers there, the others are shown
        return _why(entry, error)
    return Said(state, _line(text))


def _line(text: str) -> str:
    """One line without what could reorder or hide a part of it."""
    shown = printable(" ".join(text[: 4 * _LONGEST_SENTENCE].split()))
    return shown if len(shown) <= _LONGEST_SENTENCE else shown[: _LONGEST_SENTENCE - 1] + "…"


def _why(entry: Entry, error: Exception) -> Said:  # noqa: PLR0911  a case each
    """State and words for an application that gave no sentence."""
    if isinstance(error, urllib.error.HTTPError):
        if error.code not in _REFUSED:
            error = _StrangeError()
        elif entry.token:
            return Said("refused", "it does not accept this token: give another one by `--token`")
        else:
            return Said("refused", "it asks for a token: give it by `--token`")
    elif isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, TimeoutError):
        return _LATE
    if isinstance(error, RidgelineError) or tls_problem(entry.url, error):
        return Said("refused", printable(tls_problem(entry.url, error) or str(error)))
    if isinstance(error, ConnectionRefusedError):
        return Said("gone", "nothing answers there: it may have ended")
    if isinstance(error, OSError):
        reason = printable(str(error.strerror or error))[:_LONGEST_REASON]
        return Said("gone", f"it cannot be reached: {reason}")
    return Said("strange", "what answers there is no application of Ridgeline, or of another version")


def _sentence(entry: Entry) -> tuple[str, str]:
    """State and text of an application's sentence.

    Raises:
        OSError: It cannot be reached, is late, or refuses.
        _StrangeError, http.client.HTTPException, ValueError, RecursionError: It answers something else.
    """
    headers = {"Accept": "application/json"}
    if entry.token:
        headers["Authorization"] = f"Bearer {entry.token}"
    asked = urllib.request.Request(f"{entry.url}{BASE}/sentence", headers=headers)  # noqa: S310
    with opener_of(entry.url).open(asked, timeout=_ANSWER_SECONDS) as got:
        document = got.read(_LARGEST + 1)
    answer: Any = json.loads(document) if len(document) <= _LARGEST else None
    known = isinstance(answer, dict) and answer.get("state") in _STATES
    if not known or not isinstance(answer.get("text"), str):
        raise _StrangeError
    return answer["state"], answer["text"]
