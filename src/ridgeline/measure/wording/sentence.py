"""The sentence that says how an application does: the same in the terminal, on the page and in REST.

It is made of one overview. Its clauses are, in this order: the verdict, what holds the application up, the
operator that is full, the backlog and its end. Broken promises and ages at the sinks follow. The last is the
slowest operator of a window, unless one is full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeline.measure.answers.application import InfoAnswer, OverviewAnswer, SentenceAnswer
from ridgeline.measure.answers.changes import PromiseAnswer
from ridgeline.measure.wording.times import age_phrase, window_phrase
from ridgeline.measure.wording.units import amount, duration, plural, soon
from ridgeline.measure.wording.waiting import (
    Phrase,
    backlog_phrase,
    bottleneck_phrase,
    joined,
    left_phrase,
    one_line,
    stuck_phrases,
    windows_late,
)

_STATES = {
    "keeping up": "ok",
    "paced": "ok",
    "unknown": "ok",
    "settling": "starting",
    "catching up": "behind",
    "holding": "behind",
    "falling behind": "behind",
    "stuck": "stuck",
    "unreachable": "stuck",
}
_OVER = {"FINISHED": "finished", "STOPPED": "stopped"}
_SHOWN = 2


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
        return _answer("starting", Phrase().say("starting: nothing is planned yet"), [])
    state = info["state"]
    if state == "FAILED":
        return _answer("failed", *_failed(info))
    if state in _OVER:
        windows = plural(info["stats"]["windowsCommitted"], "window")
        head = Phrase().say(f"{_OVER[state]} after ").show(windows, "time")
        left = left_phrase(overview) if state == "STOPPED" else []
        clauses = [*left, *_promises(overview, over=True), *age_phrase(overview, over=True)]
        return _answer("ended", head, [*clauses, *window_phrase(overview, over=True)])
    clauses = _promises(overview)
    if state == "PAUSED":
        what = "no window begins until it is continued"
        clauses = [
            Phrase().say(what),
            *backlog_phrase(overview["progress"], overview["at"], paused=True),
            *clauses,
            *age_phrase(overview),
        ]
        return _answer("behind", Phrase().say("paused"), clauses)
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
    because = [Phrase().show(one_line(text), "graph") for text in overview["progress"].get("because", ())]
    full = bottleneck_phrase(overview["progress"])
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
    return _answer(state, Phrase().show(heads.get(verdict, verdict), "graph"), clauses)


def _answer(state: str, head: Phrase, clauses: Sequence[Phrase]) -> SentenceAnswer:
    whole = head if not clauses else head.say(": ").add(joined(list(clauses), "; "))
    return {"text": whole.text, "state": state, "parts": whole.parts}


def _failed(info: InfoAnswer) -> tuple[Phrase, list[Phrase]]:
    """Why it failed, and after how many windows."""
    windows = (
        Phrase().say("it had committed ").show(plural(info["stats"]["windowsCommitted"], "window"), "time")
    )
    reason = [Phrase().show(one_line(info["reason"]), "graph")] if info["reason"].strip() else []
    return Phrase().say("failed"), [*reason, windows]


def _first_window(overview: OverviewAnswer, info: InfoAnswer) -> SentenceAnswer:
    """How far the first window is."""
    progress = overview["progress"]
    stuck = stuck_phrases(overview)
    clause = Phrase().say("no window is committed yet")
    if progress["running"] and progress["elapsedSeconds"] is not None:
        clause = Phrase().say("the first window runs for ").show(soon(progress["elapsedSeconds"]), "graph")
        fraction = progress["window"]["fractionDone"]
        if fraction is not None:
            clause.say(", ").show(f"{fraction:.0%}", "graph").say(" of it done")
    retried = info["stats"]["windowsRetried"]
    if retried:
        clause.say(", after ").show(f"{plural(retried, 'attempt')} that failed", "time")
    return _answer("stuck" if stuck else "starting", Phrase().say("starting"), [clause, *stuck])


def _promises(overview: OverviewAnswer, *, over: bool = False) -> list[Phrase]:
    """The promises that are broken: since when, what was measured, and what is promised."""
    broken = [row for row in overview["promises"] if row["kept"] is False]
    phrases = [_broken(row, overview["at"], over=over) for row in broken[:_SHOWN]]
    if len(broken) > _SHOWN:
        more = plural(len(broken) - _SHOWN, "more promise")
        phrases.append(Phrase().show(more, "promises").say(" broken"))
    return phrases


def _broken(row: PromiseAnswer, now: float, *, over: bool) -> Phrase:
    about = {"promise": row["promise"]}
    phrase = Phrase().say("promise ").show(one_line(row["promise"]), "promises", **about)
    if over:
        return phrase.say(" was broken at the end")
    phrase.say(" is broken for ").show(duration(max(0.0, now - row["since"])), "promises", **about)
    if row["figure"] is not None:
        phrase.say(" (").show(amount(row["figure"], row["unit"]), "promises", **about).say(" instead of ")
        phrase.show(amount(row["limit"], row["unit"]), "promises", **about).say(")")
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
    return [Phrase().show("no data arrives now" if ever else "no data has arrived yet", "sources")]
