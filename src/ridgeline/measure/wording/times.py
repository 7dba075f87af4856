"""Clauses about time: how old records are at the sinks, and which operator takes the most of a window."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.windows import BlameStepAnswer, PathStepAnswer
from ridgeline.measure.wording.units import about, duration
from ridgeline.measure.wording.waiting import SHOWN, Phrase, joined, more, one_line, shown

STEPS = {
    "offsets": "Spark's offsets",
    "log": "Spark's offset log",
    "trigger": "Spark's trigger",
    "planning": "planning",
    "ending": "seeing that inputs had ended",
    "retries": "earlier attempts",
    "launch": "sending time",
    "slot": "waiting for a slot",
    "restore": "state restore",
    "compute": "compute",
    "transfer": "transfer",
    "sibling": "siblings",
    "state": "state files",
    "results": "collecting results",
    "stage": "staging",
    "commit": "commit",
    "queue": "waiting in a queue",
    "other": "unexplained",
}
"""The names of steps of blame chains."""
_OWN = {"compute", "transfer", "queue"}
"""The steps that are on the critical path too."""
SEEN_AT = ("publish", "commit", "emit")
"""Where results can be seen: the first of these at which an output has ages counts."""
_NUMBER = re.compile(r"\[\d+\]$")
_LEAST_MS = 0.1
_LEAST_SHARE = 0.005


def logical_name(title: str) -> str:
    """The name of the logical operator that a physical one belongs to.

    >>> logical_name("quote[1]")
    'quote'
    """
    return _NUMBER.sub("", title)


def age_phrase(overview: OverviewAnswer, *, over: bool = False) -> list[Phrase]:
    """`99% of records are younger than 350 ms at store and 300 ms at board`; nothing without ages.

    The oldest sinks come first, the age of each is that of its worst partition. `over`: in the past tense.
    """
    ages = sink_ages(overview)
    if not ages:
        return []
    newest = overview["recordAge"].get("fromNewestRecord")
    behind = " behind the newest" if newest else ""
    sinks: list[Phrase] = [
        [shown(duration(max(ms, _LEAST_MS) / 1000), "sinks", sink=name), f"{behind} at {one_line(name)}"]
        for name, ms in ages[:SHOWN]
    ]
    are, than = "were" if over else "are", "less than" if newest else "younger than"
    phrase: Phrase = [shown("99%", "sinks"), f" of records {are} {than} ", *joined(sinks, " and ")]
    return [joined([phrase, *more(ages, "sink", "sinks", " not later")], ", ")]


def sink_ages(overview: OverviewAnswer) -> list[tuple[str, float]]:
    """The 99th percentile of the age of records at each sink in milliseconds, the oldest first.

    Where readers see results: published, else committed, else emitted.
    """
    outputs = {logical_name(row["operator"]) for row in overview["operators"] if row["kind"] == "output"}
    queues = {row["writer"] for row in overview["progress"].get("queues", ())}
    seen = [
        (-SEEN_AT.index(row["at"]), row["p99Ms"], logical_name(row["operator"]))
        for row in overview["recordAge"]["operators"]
        if row["at"] in SEEN_AT and row["count"] and row["p99Ms"] is not None
    ]
    last = {name: (SEEN_AT[-place], age) for place, age, name in sorted(seen)}
    ages = {
        name: age
        for name, (at, age) in last.items()
        if name not in queues and (at != "emit" or name in outputs)
    }
    return sorted(ages.items(), key=lambda item: (-item[1], item[0]))


def window_phrase(overview: OverviewAnswer, *, over: bool = False) -> list[Phrase]:
    """`a window takes 97 ms, 42% of it quote[1]`: the operator of the critical path that takes the most.

    A part of the window beside the path that takes still more is said before it. Nothing before the first
    window.

    `over`: of an application that has ended: `the last window took 97 ms`. Others may have been unlike it.
    """
    path = overview["criticalPath"]
    whole = path["windowLatencyMs"]
    if not whole or whole <= 0 or not path["path"]:
        return []
    window = {} if path["windowId"] is None or "windows" in path else {"window": str(path["windowId"])}
    step = _slowest(path["path"])
    title, logical = step["operator"], logical_name(step["operator"])
    chain = [one for one in path["blame"] if logical_name(one["operator"]) == logical]
    # Who waits for a slot that the operator fills, with earlier windows as well, waits for the operator.
    fills = math.fsum(one["ms"] for one in chain if one["what"] == "slot")
    took = fills + (step["latencyMs"] or 0.0)
    if any(one["operator"] != title for one in chain):  # another of its partitions was waited for
        title, took = logical, fills + math.fsum(one["ms"] for one in chain if one["what"] in _OWN)
    rest = beside_path(path["blame"])
    rest["slot"] = rest.get("slot", 0.0) - fills
    other = max(rest.items(), key=lambda item: item[1])
    takes = "results take" if "windows" in path else "a window takes"
    if over:
        takes = f"the last {'results' if 'windows' in path else 'window'} took"
    phrase: Phrase = [f"{takes} ", shown(duration(whole / 1000), "time", **window), ", "]
    if other[1] > took:
        share = shown(f"{min(1.0, other[1] / whole):.0%}", "time", **window)
        phrase += [share, f" of it {STEPS.get(other[0], other[0])}"]
        if took / whole < _LEAST_SHARE or took + other[1] > whole:  # or the operator ran meanwhile
            return [phrase]
        phrase.append(" and ")
    name = step_owner(overview, step)
    part = about(f"{min(1.0, took / whole):.0%}", step.get("estimated"))
    of = "" if other[1] > took else "of it "
    return [[*phrase, shown(part, "graph", operator=name, **window), f" {of}{one_line(title)}"]]


def beside_path(blame: Sequence[BlameStepAnswer]) -> dict[str, float]:
    """Milliseconds of a window that are no operator's own, by what the window waited for."""
    rest: dict[str, float] = {}
    for step in blame:
        if step["what"] not in _OWN:
            rest[step["what"]] = rest.get(step["what"], 0.0) + step["ms"]
    return rest


def to_blame(overview: OverviewAnswer) -> str | None:
    """The logical operator that takes the most of the last window's critical path; None before the first."""
    steps = overview["criticalPath"]["path"]
    return step_owner(overview, _slowest(steps)) if steps else None


def _slowest(steps: Sequence[PathStepAnswer]) -> PathStepAnswer:
    return max(steps, key=lambda one: one["latencyMs"] or 0.0)


def step_owner(overview: OverviewAnswer, step: PathStepAnswer) -> str:
    """The logical operator of a step: of a unifier the one before it, of a queue the one that reads it."""
    names = {row["id"]: row["logicalName"] for row in overview["operators"]}
    return names.get(step["id"]) or logical_name(step["operator"])
