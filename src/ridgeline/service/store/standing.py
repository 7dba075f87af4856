"""Whether an application in a store lives: by its process, its heartbeats and its web service."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ridgeline.service.registry import LIVING, Entry, process_there
from ridgeline.service.store.asking import Said, ask
from ridgeline.service.store.folder import EntryFolder, Found

BEAT_SECONDS = 2.0
"""How often an application writes its entry."""
DEAD_SECONDS = 10.0
"""An entry that is older is of an application that is dead, if its web service does not answer either."""
DEAD, DAMAGED, FOREIGN = "dead", "damaged", "foreign"
_ANSWERS = {"starting", "ok", "behind", "stuck", "failed", "ended", "refused"}


@dataclass(frozen=True, slots=True)
class Standing:
    """How an application stands.

    `state`: that of its entry, `dead`, `damaged`, or `foreign`: of a user who is not trusted.
    `age`: seconds since its entry was written, by the store's clock. `words`: the reason, or what it says
    itself.
    """

    found: Found
    state: str
    age: float
    words: str = ""
    said: Said | None = None

    @property
    def lives(self) -> bool:
        """Whether it starts or runs."""
        return self.state in LIVING


def standings(
    folder: EntryFolder, found: Sequence[Found], tokens: Mapping[str, str], token: str | None = None
) -> list[Standing]:
    """How applications stand. Those that may live are asked all at once, which takes three seconds at most.

    `tokens`: by the id of the application; `token`: for all others.
    """
    now = folder.now()
    asked = [
        (one, one.entry)
        for one in found
        if one.entry is not None and one.entry.state in LIVING and reachable(one.entry)
    ]
    answers = ask([replace(entry, token=tokens.get(entry.id) or token) for _, entry in asked])
    by_name = {one.name: answer for (one, _), answer in zip(asked, answers, strict=True)}
    return [_standing(one, now, by_name.get(one.name)) for one in found]


def standing(folder: EntryFolder, found: Found) -> Standing:
    """How one application stands. It is asked only if its entry does not decide."""
    first = _standing(found, folder.now(), None)
    if first.state != DEAD or found.entry is None or process_there(found.entry) is False:
        return first
    return standings(folder, [found], {})[0]


def _standing(found: Found, now: float, said: Said | None) -> Standing:
    """How it stands at that time of the store's clock; `said`: the answer of its web service, if asked."""
    entry, age = found.entry, max(0.0, now - found.written)
    if entry is None:
        return Standing(found, DAMAGED if found.trusted else FOREIGN, age, found.fault)
    if entry.state not in LIVING:
        return Standing(found, entry.state, age, entry.reason)
    alive = process_there(entry)
    answers = said is not None and said.state in _ANSWERS
    if alive is False:
        return Standing(found, DEAD, age, f"its process {entry.pid} on `{entry.host}` is gone")
    if alive is None and age > DEAD_SECONDS and not answers:
        what = f"it has written no heartbeat for {age:.0f} s"
        return Standing(found, DEAD, age, f"{what}, and {_silence(entry, said)}")
    return Standing(found, entry.state, age, _words(entry, said), said)


def _silence(entry: Entry, said: Said | None) -> str:
    if said is not None:
        return "its web service does not answer"
    return "its web service cannot be asked from here" if entry.url else "it has no web service"


def _words(entry: Entry, said: Said | None) -> str:
    if said is not None:
        return said.words
    if not entry.url:
        return "it starts" if entry.state == "starting" else "it has no web service"
    return (
        f"its web service listens for `{entry.host}` alone: ask there, or start it with `--host ADDRESS` and "
        "`--token`"
    )


def reachable(entry: Entry) -> bool:
    """Whether its web service can be asked from here: a loopback address is another one on each host."""
    try:
        parts = urlsplit(entry.url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme not in {"http", "https"} or not host:
        return False
    loopback = host == "localhost"
    with contextlib.suppress(ValueError):
        loopback = loopback or ipaddress.ip_address(host).is_loopback
    return not loopback or entry.host == socket.gethostname()
