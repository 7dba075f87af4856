"""Clauses about what waits, when that will be done, and what does not move."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ridgeline.api.support.masking import printable
from ridgeline.measure.answers.application import OverviewAnswer, SentencePartAnswer
from ridgeline.measure.answers.progress import FULL, BacklogAnswer, ProgressAnswer, SourceAnswer
from ridgeline.measure.wording.units import count, duration, plural, rate, soon, time_of_day

_LONGEST = 160


class Phrase:
    """Pieces of a text, in their order.

    Example:
        >>> phrase = Phrase().say("a window takes ").show("97 ms", "time", window="12")
        >>> phrase.text, phrase.parts[1]["about"]
        ('a window takes 97 ms', {'view': 'time', 'window': '12'})
    """

    def __init__(self) -> None:
        self.parts: list[SentencePartAnswer] = []

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(part["text"] for part in self.parts)

    def say(self, text: str) -> Phrase:
        """Add words that are made of no figure."""
        if self.parts and self.parts[-1]["about"] is None:
            self.parts[-1] = {"text": self.parts[-1]["text"] + text, "about": None}
        elif text:
            self.parts.append({"text": text, "about": None})
        return self

    def show(self, text: str, view: str, **parameters: str) -> Phrase:
        """Add a piece that a view of the page shows, with the parameters of its address."""
        self.parts.append({"text": text, "about": {"view": view, **parameters}})
        return self

    def add(self, other: Phrase) -> Phrase:
        """Add all pieces of another text."""
        for part in other.parts:
            if part["about"] is None:
                self.say(part["text"])
            else:
                self.parts.append(part)
        return self


def joined(phrases: list[Phrase], between: str) -> Phrase:
    """One text of several, with the same words between them."""
    whole = Phrase()
    for number, phrase in enumerate(phrases):
        whole.say(between if number else "").add(phrase)
    return whole


def one_line(text: str) -> str:
    r"""The first line of a text of others, without what would disturb a terminal; a long one is cut.

    >>> one_line("no space left\nat line 3")
    'no space left'
    """
    line = printable(text.strip().partition("\n")[0])
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


BASES = {"estimated": "about ", "schedule": "about ", "lower bound": "at least "}
"""The prefixes of numbers that are not exact, by their basis."""
LATE_WINDOWS = 2
"""Windows that may be due and not begun without being late."""
_LATE_SECONDS = 1.0
_OLD_SECONDS = 5.0
_LEAST_WORK_SECONDS = 0.001
_MORE = 1.02  # of what is done; by less than this nothing more arrives
_SHOWN = 2


def known_as(basis: str) -> str:
    """The prefix of a number that is not exact: `about `, `at least `."""
    return BASES.get(basis, "")


def windows_late(overview: OverviewAnswer) -> list[Phrase]:
    """That windows begin late, though the sources say that nothing waits; nothing below a second."""
    info, behind = overview["info"], overview["progress"]["application"].get("windowsBehind")
    seconds = (behind or 0) * (info["windowSeconds"] if "id" in info else 0.0)
    if not behind or behind <= LATE_WINDOWS or seconds < _LATE_SECONDS:
        return []
    # Of several regions the narrowest window is known, not that of the region which is late.
    least = "at least " if "queues" in overview["progress"] else ""
    phrase = Phrase().say("windows begin ").show(f"{least}{duration(seconds)}", "time")
    phrase.say(" after their time (")
    return [phrase.show(plural(behind, "window"), "time").say(" behind)")]


def backlog_phrase(
    progress: ProgressAnswer, at: float | None, late: Sequence[Phrase] = (), *, paused: bool = False
) -> list[Phrase]:
    """`12,300 records wait at ticks, the oldest for 31 s, caught up in 40 s`; nothing if nothing waits.

    `at`: STRAM's clock, None if it is not known. `late`: as `windows_late`. `paused`: nothing is taken, so
    it has no end and no trend.
    """
    application = progress["application"]
    verdict = application["verdict"]
    if verdict in {"keeping up", "paced"} or (verdict == "settling" and not paused):
        return _dated(_paced(verdict), application, at)
    if verdict == "unknown":
        waits = not application["backlogRecords"] and application["backlogSeconds"] is None
        return [Phrase().say("how much waits at the sources is not known")] if waits else _waits(progress)
    phrases = [] if progress.get("because") and not paused else [*_waits(progress), *_oldest(application)]
    if paused:
        return _dated(phrases, application, at)
    if verdict == "catching up" and application["caughtUpAt"] is not None:
        end = application["caughtUpAt"]
        when = f"at {time_of_day(end)}" if at is None else f"in {soon(end - at)}"
        phrases.append(Phrase().say("caught up ").show(when, "sources"))
    if phrases and verdict in {"holding", "falling behind"}:
        phrases += _rates(progress, verdict)
    elif verdict == "falling behind" and not progress.get("because"):
        phrases = [Phrase().say("nothing waits at the sources, but ")]
        phrases[0].add(late[0] if late else Phrase().say("windows begin late"))
    return _dated(phrases, application, at)


def bottleneck_phrase(progress: ProgressAnswer) -> list[Phrase]:
    """`slow is full: it does 460 of 800 tuples/s, 3 partitions would keep up`; nothing if no operator is."""
    found = progress["application"].get("bottleneck")
    if found is None:
        return []
    name = found["operator"]
    phrase = Phrase().show(one_line(name), "graph", operator=name)
    if found["busy"] >= FULL:
        phrase.say(" is full: it does ")
    else:
        phrase.say(f" has {found['busy']:.0%} of a slot that is full: it does ")
    wanted = found["wantedPerSecond"]
    more = wanted is not None and wanted > found["perSecond"] * _MORE
    of = f" of {rate(wanted)}" if more else ""
    phrase.show(f"{rate(found['perSecond'])}{of} tuples/s", "graph", operator=name)
    if more and found["enough"] is not None and found["enough"] > found["partitions"]:
        phrase.say(f", {found['enough']} partitions would keep up")
    return [phrase]


def _dated(phrases: list[Phrase], application: BacklogAnswer, at: float | None) -> list[Phrase]:
    """Phrases about sources as one, with the age of what the sources said if it is old."""
    as_of = application.get("asOf")
    if at is not None and as_of is not None and at - as_of > _OLD_SECONDS:
        phrases.append(Phrase().say("as of ").show(soon(at - as_of), "sources").say(" ago"))
    return [joined(phrases, ", ")] if phrases else []


def left_phrase(overview: OverviewAnswer) -> list[Phrase]:
    """The rest at sources and in queues of an application that has ended; nothing if it took everything."""
    waits = _waits(overview["progress"])
    return [Phrase().say("at its end ").add(waits[0])] if waits else []


def _paced(verdict: str) -> list[Phrase]:
    words = {"paced": "what is left is not due yet", "settling": "it is too early to say whether it keeps up"}
    return [Phrase().say(words[verdict])] if verdict in words else []


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
        noun = "record waits" if records == 1 else "records wait"
        phrase = Phrase().show(f"{basis}{count(records)} {noun.split(maxsplit=1)[0]}", "sources", **named)
        phrase.say(f" {noun.split()[1]}")
    elif seconds and seconds >= _LEAST_WORK_SECONDS:
        phrase = Phrase().show(f"{basis}{duration(seconds)}", "sources", **named).say(" of work waits")
    elif worst is not None and worst["backlog"]["value"]:
        unit = worst["unit"] or "units"
        phrase = Phrase().show(
            f"{basis}{count(worst['backlog']['value'])} {one_line(unit)}", "sources", **named
        )
        phrase.say(" wait")
    else:
        return []
    if worst is not None:
        most = ", most of it at " if len(waiting) > 1 else " at "
        phrase.say(f"{most}{one_line(worst['operator'])}")
    return [phrase]


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
    return [Phrase().say("the oldest for ").show(f"{least}{duration(oldest['value'])}", "sources")]


def _rates(progress: ProgressAnswer, verdict: str) -> list[Phrase]:
    """How much arrives and is worked off at the source that is the furthest behind."""
    worst = max((row for row in progress["sources"] if row["verdict"] == verdict), key=_longest, default=None)
    if worst is None or worst["arrivalPerSecond"] is None or worst["drainPerSecond"] is None:
        return []
    unit, name = one_line(worst["unit"] or "units"), worst["operator"]
    phrase = Phrase().show(f"{rate(worst['arrivalPerSecond'])} {unit}/s", "sources", source=name)
    phrase.say(" arrive and ").show(rate(worst["drainPerSecond"]), "sources", source=name)
    return [phrase.say(" are worked off")]


def stuck_phrases(overview: OverviewAnswer) -> list[Phrase]:
    """Why the application is stuck: sources, the store, outputs, the operators that run."""
    progress = overview["progress"]
    application = progress["application"]
    phrases = []
    if application["verdict"] == "unreachable":
        silent = [row for row in progress["sources"] if row.get("problem")]
        for row in silent[:_SHOWN]:
            phrase = (
                Phrase().say("source ").show(one_line(row["operator"]), "sources", source=row["operator"])
            )
            phrase.say(" does not answer (")
            phrase.show(one_line(row["problem"] or ""), "sources", source=row["operator"])
            phrases.append(phrase.say(")"))
        if len(silent) > _SHOWN:
            phrases.append(Phrase().show(plural(len(silent) - _SHOWN, "more source"), "sources").say(" too"))
    if application["verdict"] == "stuck" and not progress.get("because"):
        phrases.append(_does_not_move(overview))
    stores = application.get("stuckStores", ())
    phrases += [Phrase().show(one_line(why), "slots") for why in stores[:_SHOWN]]
    outputs = application.get("stuckOutputs", ())
    phrases += [Phrase().show(one_line(why), "sinks") for why in outputs[:_SHOWN]]
    if len(outputs) > _SHOWN:
        phrases.append(Phrase().show(plural(len(outputs) - _SHOWN, "more output"), "sinks").say(" stuck"))
    return phrases


def _does_not_move(overview: OverviewAnswer) -> Phrase:
    """For how long nothing has moved in the window under way, and in which operators it is."""
    progress = overview["progress"]
    phrase = Phrase().say("nothing is committed, and nothing moves")
    running = [row["operator"] for row in progress["operators"] if row["state"] == "running"]
    if progress["running"] and progress["elapsedSeconds"] is not None:
        phrase.say("; the window under way runs for ").show(soon(progress["elapsedSeconds"]), "graph")
        for number, name in enumerate(running[:_SHOWN]):
            phrase.say(" and " if number else ", in ").show(one_line(name), "graph", operator=name)
        if len(running) > _SHOWN:
            phrase.say(" and ").show(plural(len(running) - _SHOWN, "more operator"), "graph")
    for container in progress["containers"]:
        if container["silent"]:
            age = container["lastHeartbeatAgeSeconds"]
            slot = _slot(overview, container["id"])
            phrase.say("; ").show(f"container {container['id']}", "slots", **slot).say(" is silent")
            if age is not None:
                phrase.say(" for ").show(soon(age), "slots", **slot)
            break
    return phrase


def _slot(overview: OverviewAnswer, container: int) -> dict[str, str]:
    """The process of a container, as the page's list of slots names it; empty if it is not known."""
    for row in overview["operators"]:
        if row["container"] == container and row["pid"] is not None:
            return {"slot": f"{row['pid']}@{row['host']}"}
    return {}
