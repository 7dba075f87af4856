"""Clauses about what waits, when that will be done, and what does not move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ridgeline.api.support.masking import printable
from ridgeline.measure.answers.application import OverviewAnswer, SentencePartAnswer
from ridgeline.measure.answers.progress import FULL, BacklogAnswer, ProgressAnswer, SourceAnswer
from ridgeline.measure.wording.units import count, duration, known_as, plural, rate, soon, time_of_day

_LONGEST = 160

Phrase: TypeAlias = list[str | SentencePartAnswer]
"""Pieces of a text, in their order: words that are made of no figure, and what a view of the page shows."""


def shown(text: str, view: str, **parameters: str) -> SentencePartAnswer:
    """A piece that a view of the page shows, with the parameters of its address."""
    return {"text": text, "about": {"view": view, **parameters}}


def parts_of(phrase: Phrase) -> list[SentencePartAnswer]:
    """The pieces as they are answered: words that follow each other are one.

    >>> parts_of(["a window takes ", shown("97 ms", "time", window="12")])[1]["about"]
    {'view': 'time', 'window': '12'}
    """
    found: list[SentencePartAnswer] = []
    for piece in phrase:
        if isinstance(piece, dict):
            found.append(piece)
        elif found and found[-1]["about"] is None:
            found[-1] = {"text": found[-1]["text"] + piece, "about": None}
        elif piece:
            found.append({"text": piece, "about": None})
    return found


def joined(phrases: Sequence[Phrase], between: str) -> Phrase:
    """One text of several, with the same words between them."""
    return [piece for number, one in enumerate(phrases) for piece in (between if number else "", *one)]


def more(known: Sequence[object], noun: str, view: str, after: str) -> list[Phrase]:
    """How many there are beside those that a sentence names; nothing without any."""
    left = len(known) - SHOWN
    return [[shown(plural(left, f"more {noun}"), view), after]] if left > 0 else []


def one_line(text: str) -> str:
    r"""The first line of a text of others, without what would disturb a terminal; a long one is cut.

    >>> one_line("no space left\nat line 3")
    'no space left'
    """
    line = printable(text.strip().partition("\n")[0])
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


LATE_WINDOWS = 2
"""Windows that may be due and not begun without being late."""
SHOWN = 2
"""Of several of a kind, so many are named in a sentence."""
_LATE_SECONDS = 1.0
_OLD_SECONDS = 5.0
_LEAST_WORK_SECONDS = 0.001
_MORE = 1.02  # of what is done; by less than this nothing more arrives
_CALM: Mapping[str, Sequence[Phrase]] = {
    "keeping up": [],
    "paced": [["what is left is not due yet"]],
    "settling": [["it is too early to say whether it keeps up"]],
}
"""What is said of sources of which no backlog is, by the verdict."""


def windows_late(overview: OverviewAnswer) -> list[Phrase]:
    """That windows begin late, though the sources say that nothing waits; nothing below a second."""
    info, behind = overview["info"], overview["progress"]["application"].get("windowsBehind")
    seconds = (behind or 0) * (info["windowSeconds"] if "id" in info else 0.0)
    if not behind or behind <= LATE_WINDOWS or seconds < _LATE_SECONDS:
        return []
    # Of several regions the narrowest window is known, not that of the region which is late.
    least = "at least " if "queues" in overview["progress"] else ""
    late, windows = shown(f"{least}{duration(seconds)}", "time"), shown(plural(behind, "window"), "time")
    return [["windows begin ", late, " after their time (", windows, " behind)"]]


def backlog_phrase(
    progress: ProgressAnswer, at: float | None, late: Sequence[Phrase] = (), *, paused: bool = False
) -> list[Phrase]:
    """`12,300 records wait at ticks, the oldest for 31 s, caught up in 40 s`; nothing if nothing waits.

    `at`: STRAM's clock, None if it is not known. `late`: as `windows_late`. `paused`: nothing is taken, so
    there is no end and no trend.
    """
    application, because = progress["application"], progress.get("because")
    verdict = application["verdict"]
    if verdict in _CALM and not (paused and verdict == "settling"):
        return _dated(_CALM[verdict], application, at)
    if verdict == "unknown":
        waits = not application["backlogRecords"] and application["backlogSeconds"] is None
        return [["how much waits at the sources is not known"]] if waits else _waits(progress)
    phrases = [] if because and not paused else [*_waits(progress), *_oldest(application)]
    if paused:
        return _dated(phrases, application, at)
    if verdict == "catching up" and (end := application["caughtUpAt"]) is not None:
        when = f"at {time_of_day(end)}" if at is None else f"in {soon(end - at)}"
        phrases.append(["caught up ", shown(when, "sources")])
    if phrases and verdict in {"not catching up", "falling behind"}:
        phrases += _rates(progress, verdict)
    elif verdict == "falling behind" and not because:
        phrases = [["nothing waits at the sources, but ", *(late[0] if late else ["windows begin late"])]]
    return _dated(phrases, application, at)


def bottleneck_phrase(progress: ProgressAnswer) -> list[Phrase]:
    """`slow is saturated: it does 460 of 800 tuples/s, 3 partitions would keep up`; nothing if none is."""
    found = progress["application"].get("bottleneck")
    if found is None:
        return []
    name, wanted, enough = found["operator"], found["wantedPerSecond"], found["enough"]
    full = "is saturated" if found["busy"] >= FULL else f"has {found['busy']:.0%} of a saturated slot"
    arrives = wanted is not None and wanted > found["perSecond"] * _MORE
    of = f" of {rate(wanted)}" if arrives else ""
    does = shown(f"{rate(found['perSecond'])}{of} tuples/s", "graph", operator=name)
    phrase: Phrase = [shown(one_line(name), "graph", operator=name), f" {full}: it does ", does]
    if arrives and enough is not None and enough > found["partitions"]:
        phrase.append(f", {enough} partitions would keep up")
    return [phrase]


def _dated(phrases: Sequence[Phrase], application: BacklogAnswer, at: float | None) -> list[Phrase]:
    """Phrases about sources as one, with the age of what the sources said if it is old."""
    as_of = application.get("asOf")
    if at is not None and as_of is not None and at - as_of > _OLD_SECONDS:
        phrases = [*phrases, ["as of ", shown(soon(at - as_of), "sources"), " ago"]]
    return [joined(phrases, ", ")] if phrases else []


def left_phrase(overview: OverviewAnswer) -> list[Phrase]:
    """The rest at sources and in queues of an application that has ended; nothing if it took everything."""
    return [["at its end ", *one] for one in _waits(overview["progress"])]


def _waits(progress: ProgressAnswer) -> list[Phrase]:
    """How much waits, and at which source the most."""
    application = progress["application"]
    records, seconds, basis = (
        application["backlogRecords"],
        application["backlogSeconds"],
        known_as(application["basis"]),
    )
    waiting = [row for row in progress["sources"] if row["backlog"]["value"] or row.get("backlogRecords")]
    queued = [row["backlogSeconds"] or 0.0 for row in progress.get("queues", ()) if row["backlogRecords"]]
    late = application["basis"] == "schedule"
    worst = None if late else max(waiting, key=_longest, default=None)
    if worst is not None and not _has_records(worst) and _longest(worst)[0] > max(queued, default=0.0):
        records = None  # those of other sources and of queues are the smaller part
    elif queued:
        worst = None
    named = {} if worst is None else {"source": worst["operator"]}
    if records:
        noun, verb = ("record", "waits") if records == 1 else ("records", "wait")
        what, does = f"{count(records)} {noun}", verb
    elif seconds and seconds >= _LEAST_WORK_SECONDS:
        what, does = duration(seconds), "of work waits"
    elif worst is not None and worst["backlog"]["value"]:
        what, does = f"{count(worst['backlog']['value'])} {one_line(worst['unit'] or 'units')}", "wait"
    else:
        return []
    most = "most of it at" if len(waiting) > 1 else ""
    where = "" if worst is None else f"{', ' if most else ' '}{most or 'at'} {one_line(worst['operator'])}"
    return [[shown(f"{basis}{what}", "sources", **named), f" {does}{where}"]]


def _has_records(row: SourceAnswer) -> bool:
    """Whether the records of a source are in the sum of all."""
    return row["backlogRecords"] is not None or row["unit"] == "tuples"


def _longest(row: SourceAnswer) -> tuple[float, float]:
    endless = math.inf if row.get("infinite") else row["backlogSeconds"] or 0.0
    return endless, row["backlogRecords"] or 0.0


def _oldest(application: BacklogAnswer) -> list[Phrase]:
    """For how long the oldest record waits."""
    oldest = application["oldest"]
    if not oldest["value"] or application["basis"] == "schedule":
        return []
    least = "at least " if oldest["basis"] == "lower bound" else ""
    return [["the oldest for ", shown(f"{least}{duration(oldest['value'])}", "sources")]]


def _rates(progress: ProgressAnswer, verdict: str) -> list[Phrase]:
    """How much arrives and is processed at the source that is the furthest behind."""
    worst = max((row for row in progress["sources"] if row["verdict"] == verdict), key=_longest, default=None)
    if worst is None or worst["arrivalPerSecond"] is None or worst["drainPerSecond"] is None:
        return []
    arrives = f"{rate(worst['arrivalPerSecond'])} {one_line(worst['unit'] or 'units')}/s"
    arriving, drain = (
        shown(text, "sources", source=worst["operator"]) for text in (arrives, rate(worst["drainPerSecond"]))
    )
    return [[arriving, " arrive and ", drain, " are processed"]]


def stuck_phrases(overview: OverviewAnswer) -> list[Phrase]:
    """Why the application is stuck: sources, the store, outputs, the operators that run."""
    progress = overview["progress"]
    application = progress["application"]
    phrases: list[Phrase] = []
    if application["verdict"] == "unreachable":
        silent = [row for row in progress["sources"] if row.get("problem")]
        for row in silent[:SHOWN]:
            name, problem = (
                shown(one_line(text or ""), "sources", source=row["operator"])
                for text in (row["operator"], row["problem"])
            )
            phrases.append(["source ", name, " does not answer (", problem, ")"])
        phrases += more(silent, "source", "sources", " too")
    if application["verdict"] == "stuck" and not progress.get("because"):
        phrases.append(_does_not_move(overview))
    stores, outputs = application.get("stuckStores", ()), application.get("stuckOutputs", ())
    phrases += [[shown(one_line(why), "slots")] for why in stores[:SHOWN]]
    phrases += [[shown(one_line(why), "sinks")] for why in outputs[:SHOWN]]
    return phrases + more(outputs, "output", "sinks", " stuck")


def _does_not_move(overview: OverviewAnswer) -> Phrase:
    """For how long nothing has moved in the window under way, and in which operators it is."""
    progress = overview["progress"]
    phrase: Phrase = ["nothing is committed, and nothing moves"]
    running = [row["operator"] for row in progress["operators"] if row["state"] == "running"]
    if progress["running"] and progress["elapsedSeconds"] is not None:
        phrase += ["; the window under way runs for ", shown(soon(progress["elapsedSeconds"]), "graph")]
        named: list[Phrase] = [[shown(one_line(name), "graph", operator=name)] for name in running[:SHOWN]]
        if running:
            phrase += [", in ", *joined([*named, *more(running, "operator", "graph", "")], " and ")]
    for container in progress["containers"]:
        if container["silent"]:
            age = container["lastHeartbeatAgeSeconds"]
            slot = _slot(overview, container["id"])
            phrase += ["; ", shown(f"container {container['id']}", "slots", **slot), " is silent"]
            if age is not None:
                phrase += [" for ", shown(soon(age), "slots", **slot)]
            break
    return phrase


def _slot(overview: OverviewAnswer, container: int) -> dict[str, str]:
    """The process of a container, as the page's list of slots names it; empty if it is not known."""
    for row in overview["operators"]:
        if row["container"] == container and row["pid"] is not None:
            return {"slot": f"{row['pid']}@{row['host']}"}
    return {}
