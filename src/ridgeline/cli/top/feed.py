"""Reads a running application for the screen: overviews as they come, progress every second, in threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.cli.remote.client import Client
from ridgeline.cli.remote.watching import LINES_SECONDS, HotLines
from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.lines import OperatorLinesAnswer
from ridgeline.measure.answers.sentence import SentenceAnswer
from ridgeline.measure.wording.sentence import sentence_of

_SECOND = 1.0
_LONGEST_BACK_OFF = 8.0
_MOST_WINDOWS = 1_000


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is known of the application at a moment."""

    number: int = 0
    """Grows with each news."""
    overview: OverviewAnswer | None = None
    sentence: SentenceAnswer | None = None
    windows: Sequence[dict[str, Any]] = ()
    """Windows from before the first overview."""
    lines: Mapping[str, OperatorLinesAnswer | None] = field(default_factory=dict)
    """By operator, where its time goes by line; None: nothing is known of it."""
    stale_since: float | None = None
    """Time of the last answer, by the wall clock, while the application does not answer."""
    why: str = ""
    """Why it does not answer."""
    ended: bool = False


class Feed:
    """Reads from `client` until `stop`. After a broken connection it tries again, ever less often."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._seen = Seen()
        self._received = 0.0
        self._answered = self._clock.wall()
        self._stopped = threading.Event()
        self._lines_of: tuple[str, ...] = ()
        self._asked = threading.Event()

    def start(self) -> None:
        """Begin to read."""
        for name, read in (
            ("overviews", self._read_overviews),
            ("progress", self._read_progress),
            ("lines", self._read_lines),
        ):
            threading.Thread(target=read, name=f"ridgeline-{name}", daemon=True).start()

    def stop(self) -> None:
        """Read no more."""
        self._stopped.set()
        self._asked.set()

    def ask_lines(self, *operators: str | None) -> None:
        """From now on read the lines of these operators alone; None stands for none."""
        wanted = tuple(dict.fromkeys(one for one in operators if one is not None))
        if wanted != self._lines_of:
            self._lines_of = wanted
            self._asked.set()

    @property
    def seen(self) -> Seen:
        """The newest of all."""
        with self._lock:
            return self._seen

    def _update(self, **changes: Any) -> None:
        with self._lock:
            self._seen = replace(self._seen, number=self._seen.number + 1, **changes)

    def _read_overviews(self) -> None:
        """Take overviews as they come, in a thread; a broken connection is made again."""
        wait = _SECOND
        while not self._stopped.is_set() and not self.seen.ended:
            try:
                if self.seen.overview is None:
                    self._update(windows=self._client.get("/windows", limit=_MOST_WINDOWS)["windows"])
                for kind, answer in self._client.events():
                    wait = _SECOND
                    if self._stopped.is_set():
                        return
                    if kind == "window":
                        self._received = self._clock.monotonic()
                        self._answered = self._clock.wall()
                        self._update(overview=answer, sentence=sentence_of(answer), stale_since=None)
                    elif kind == "end":
                        self._end(answer.get("state") or "")
                        return
            except RidgelineError as error:
                self._lost(error)
            self._clock.wait(wait, self._stopped)
            wait = min(2 * wait, _LONGEST_BACK_OFF)

    def _read_progress(self) -> None:
        """Every second how far the window is that runs."""
        while not self._stopped.is_set() and not self.seen.ended:
            try:
                overview = self.seen.overview
                if overview is None:
                    self._update(sentence=self._client.get("/sentence"), stale_since=None)
                else:
                    self._progressed(overview)
                self._answered = self._clock.wall()
            except RidgelineError as error:
                self._lost(error)
            self._clock.wait(_SECOND, self._stopped)

    def _read_lines(self) -> None:
        """Every two seconds where the time of operators goes that are looked at; of others at once."""
        hot = HotLines(self._client)
        while not self._stopped.is_set() and not self.seen.ended:
            self._asked.clear()
            wanted = self._lines_of
            found = {name: hot.of(name) for name in wanted}
            if wanted and self.seen.stale_since is None:
                self._update(lines=found)
            self._clock.wait(LINES_SECONDS, self._asked)

    def _progressed(self, overview: OverviewAnswer) -> None:
        """Take the newest progress and state into the overview, if no newer one has come meanwhile."""
        asked = {"asShown": "true"} if overview.get("together") else {}
        progress, info = self._client.get("/progress", **asked), self._client.get("/info")
        at = overview["at"] + self._clock.monotonic() - self._received
        now: OverviewAnswer = {**overview, "progress": progress, "info": info, "at": at}
        with self._lock:
            if self._seen.ended or self._seen.overview is not overview:
                return
            number = self._seen.number + 1
            self._seen = replace(
                self._seen, number=number, overview=now, sentence=sentence_of(now), stale_since=None
            )
        self._received = self._clock.monotonic()

    def _end(self, state: str) -> None:
        """The application has ended: say so in the sentence."""
        overview = self.seen.overview
        if overview is None or "id" not in overview["info"]:
            text = f"the application has ended ({state.lower()})"
            sentence: SentenceAnswer = {
                "text": text,
                "state": "ended",
                "parts": [{"text": text, "about": None}],
            }
        else:
            over: OverviewAnswer = {**overview, "info": {**overview["info"], "state": state or "STOPPED"}}
            sentence = sentence_of(over)
        self._update(sentence=sentence, ended=True, stale_since=None)

    def _lost(self, error: RidgelineError) -> None:
        if not self.seen.ended:
            self._update(stale_since=self._answered, why=str(error))
