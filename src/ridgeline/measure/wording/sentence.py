"""The sentence that says how an application does: the same in the terminal, on the page and in REST.

It is made of one overview. Its clauses are, in this order: the verdict, what holds the application up, the
operator that is full, the backlog and its end. Broken promises and ages at the sinks follow. The last is the
slowest operator of a window, unless one is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.measure.answers.application import (
    InfoAnswer,
    OverviewAnswer,
    SentenceAnswer,
    SentencePartAnswer,
)
from ridgeline.measure.answers.changes import PromiseAnswer
from ridgeline.measure.wording.times import age_phrase, window_phrase
from ridgeline.measure.wording.units import amount, duration, plural, soon
from ridgeline.measure.wording.waiting import (
    SHOWN,
    Phrase,
    backlog_phrase,
    bottleneck_phrase,
    joined,
    left_phrase,
    more,
    one_line,
    parts_of,
    shown,
    stuck_phrases,
    windows_late,
)

_STATES = {
    "keeping up": "ok",
    "paced": "ok",
    "unknown": "ok",
    "settling": "starting",
    "catching up": "behind",
    "not catching up": "behind",
    "falling behind": "behind",
    "stuck": "stuck",
    "unreachable": "stuck",
}
_OVER = {"FINISHED": "finished", "STOPPED": "stopped"}


def sentence_of(overview: OverviewAnswer) -> SentenceAnswer:
    """How an application does, in a sentence.

    Args:
        overview: All of one moment, of an application with one region or several, in whatever state.

    Returns:
        The sentence, its pieces, and the state for colours. A promise that is broken is never `ok`.
        A pause is `behind`.
    """
    info = overview["info"]
    if "id" not in info:
        return _answer("starting", ["starting: nothing is planned yet"], [])
    state, committed = info["state"], shown(plural(info["stats"]["windowsCommitted"], "window"), "time")
    if state == "FAILED":
        reason: list[Phrase] = [[shown(one_line(info["reason"]), "graph")]] if info["reason"].strip() else []
        return _answer("failed", ["failed"], [*reason, ["it had committed ", committed]])
    if state in _OVER:
        left = left_phrase(overview) if state == "STOPPED" else []
        clauses = [*left, *_promises(overview, over=True), *age_phrase(overview, over=True)]
        head: Phrase = [f"{_OVER[state]} after ", committed]
        return _answer("ended", head, [*clauses, *window_phrase(overview, over=True)])
    clauses = _promises(overview)
    if state == "PAUSED":
        clauses = [
            ["no window begins until it is continued"],
            *backlog_phrase(overview["progress"], overview["at"], paused=True),
            *clauses,
            *age_phrase(overview),
        ]
        return _answer("behind", ["paused"], clauses)
    if overview["windowId"] is None:
        return _first_window(overview, info)
    return _running(overview, clauses, broken=bool(clauses))


def _running(overview: OverviewAnswer, promises: list[Phrase], *, broken: bool) -> SentenceAnswer:
    """Whether it keeps up, of an application that has committed a window. `broken`: a promise is."""
    application = overview["progress"]["application"]
    late = windows_late(overview)
    verdict = "late" if late and _STATES.get(application["verdict"]) == "ok" else application["verdict"]
    state = "behind" if verdict == "late" else _STATES.get(verdict, "ok")
    stuck = stuck_phrases(overview)
    if stuck:
        state = "stuck"
        verdict = state if _STATES.get(verdict) == "ok" else verdict
    elif broken and state == "ok":
        state = "behind"
    full = bottleneck_phrase(overview["progress"])
    because: list[Phrase] = [
        [shown(one_line(text), "graph")] for text in overview["progress"].get("because", ())
    ]
    clauses = [
        *stuck,
        *because,
        *(late if verdict == "late" else ()),
        *full,
        *backlog_phrase(overview["progress"], overview["at"], late),
        *promises,
        *_idle(overview),
        *age_phrase(overview),
        *([] if full else window_phrase(overview)),
    ]
    heads = {"unknown": "running", "settling": "starting"}
    return _answer(state, [shown(heads.get(verdict, verdict), "graph")], clauses)


def _answer(state: str, head: Phrase, clauses: Sequence[Phrase]) -> SentenceAnswer:
    parts = parts_of([*head, ": ", *joined(clauses, "; ")] if clauses else head)
    return {"text": "".join(part["text"] for part in parts), "state": state, "parts": parts}


def _first_window(overview: OverviewAnswer, info: InfoAnswer) -> SentenceAnswer:
    """How far the first window is."""
    progress = overview["progress"]
    stuck = stuck_phrases(overview)
    clause: Phrase = ["no window is committed yet"]
    if progress["running"] and progress["elapsedSeconds"] is not None:
        clause = ["the first window runs for ", shown(soon(progress["elapsedSeconds"]), "graph")]
        fraction = progress["window"]["fractionDone"]
        if fraction is not None:
            clause += [", ", shown(f"{fraction:.0%}", "graph"), " of it done"]
    retried = info["stats"]["windowsRetried"]
    if retried:
        clause += [", after ", shown(f"{plural(retried, 'attempt')} that failed", "time")]
    return _answer("stuck" if stuck else "starting", ["starting"], [clause, *stuck])


def _promises(overview: OverviewAnswer, *, over: bool = False) -> list[Phrase]:
    """The promises that are broken: since when, what was measured, and what is promised."""
    broken = [row for row in overview["promises"] if row["kept"] is False]
    phrases = [_broken(row, overview["at"], over=over) for row in broken[:SHOWN]]
    return phrases + more(broken, "promise", "promises", " broken")


def _broken(row: PromiseAnswer, now: float, *, over: bool) -> Phrase:
    """One promise that is broken."""

    def show(text: str) -> SentencePartAnswer:
        return shown(text, "promises", promise=row["promise"])

    phrase: Phrase = ["promise ", show(one_line(row["promise"]))]
    if over:
        return [*phrase, " was broken at the end"]
    phrase += [" is broken for ", show(duration(max(0.0, now - row["since"])))]
    if row["figure"] is not None:
        found, limit = (show(amount(one, row["unit"])) for one in (row["figure"], row["limit"]))
        phrase += [" (", found, " instead of ", limit, ")"]
    return phrase


def _idle(overview: OverviewAnswer) -> list[Phrase]:
    """That nothing arrives, if no input emits anything."""
    inputs: list[Any] = [row for row in overview["operators"] if row["kind"] == "input"]
    if not inputs or any(row["tuplesEmittedPSMA"] for row in inputs):
        return []
    window = overview["window"]
    if window is not None and window["tuplesIn"]:
        return []
    ever = any(row["totalTuplesEmitted"] for row in inputs)
    return [[shown("no data arrives now" if ever else "no data has arrived yet", "sources")]]
