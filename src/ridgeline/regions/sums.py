"""The answers of several regions as one of the application: a rule for each kind of figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

from ridgeline.measure.answers.application import (
    InfoAnswer,
    PendingInfoAnswer,
    RunAnswer,
    RunSummaryAnswer,
)
from ridgeline.measure.answers.changes import PromiseAnswer
from ridgeline.measure.answers.windows import CriticalPathAnswer
from ridgeline.regions.region_run import RegionRun, failure_of, state_of

_ERRORS_KEPT, _DROPS_KEPT = 10, 5
_ENDS = ("FAILED", "STOPPED", "FINISHED")
Rule: TypeAlias = Callable[[list[Any]], Any]
"""Makes one value of those of all regions, of which some may be None."""


def joined(answers: Sequence[Any], **rules: Rule) -> Any:
    """Answers about regions as one about the application, field by field.

    Lists come one after the other, dicts are put together, numbers are summed up, a flag is set if one is.
    Of anything else the first counts. `rules`: of fields that are joined otherwise.

    >>> joined([{"windows": 3, "rows": [1], "at": 2.0}, {"windows": 4, "rows": [2], "at": None}], at=least)
    {'windows': 7, 'rows': [1, 2], 'at': 2.0}
    """
    names = dict.fromkeys(chain.from_iterable(answers))
    return {name: rules.get(name, _by_kind)([one.get(name) for one in answers]) for name in names}


def _by_kind(values: list[Any]) -> Any:
    """Join the values of regions as their type says: lists follow each other, numbers are added."""
    known = [value for value in values if value is not None]
    match known[0] if known else None:
        case list():
            return list(chain.from_iterable(known))
        case dict():
            return {key: value for one in known for key, value in one.items()}
        case bool():
            return any(known)
        case int() | float():
            return sum(known)
        case first:
            return first


def least(values: list[Any]) -> Any:
    """The least value that is known."""
    return min((value for value in values if value is not None), default=None)


def greatest(values: list[Any]) -> Any:
    """The greatest value that is known."""
    return max((value for value in values if value is not None), default=None)


def greatest_if_known(values: list[Any]) -> Any:
    """The greatest value; None without any, or if one is not known."""
    return max(values) if values and None not in values else None


def total(values: Iterable[Any]) -> Any:
    """The sum of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def counted(values: list[Any]) -> Any:
    """Counts by name, in sum."""
    found: Counter[str] = Counter()
    for one in values:
        found.update(one)
    return dict(found)


def in_order(values: list[Any], at: str = "at") -> Any:
    """Rows of several lists by time."""
    return sorted(chain.from_iterable(values), key=itemgetter(at))


def histories(answers: Sequence[Any], names: Sequence[str]) -> Any:
    """The steps of all regions by time. A region with many operators has longer steps than others."""
    own = [
        {**answer, "steps": [{**step, "region": name} for step in answer["steps"]]}
        for name, answer in zip(names, answers, strict=True)
    ]
    return joined(own, step=greatest, keptSeconds=least, steps=in_order)


def info(
    regions: Sequence[RegionRun],
    infos: Sequence[InfoAnswer | PendingInfoAnswer],
    path: CriticalPathAnswer,
) -> InfoAnswer | PendingInfoAnswer:
    """The application, of its regions. `path`: the joined one."""
    known = [one for one in infos if "id" in one]
    if not known:
        return {"state": "PENDING", "stats": {}}
    failed = [(region.name, failure_of(region)) for region in regions if state_of(region) == "FAILED"]
    attributes: dict[str, Any] = {}
    for region, one in reversed([*zip(regions, infos, strict=True)]):
        if "id" in one:
            own = region.region.attributes
            attributes |= {name: value for name, value in one["attributes"].items() if name not in own}
    stats = joined(
        [one["stats"] for one in known],
        currentWindowId=greatest,
        recoveryWindowId=greatest,
        windowStartMillis=least,
        messagesRefusedByReason=counted,
        latency=lambda _: path["average"]["latencyMs"],
        criticalPath=lambda _: path["average"]["path"],
        windowLatency=lambda _: path["windowLatencyMs"],
    )
    found: Any = joined(known, checkpoint=_folder_of, startTime=least, windowSeconds=least)
    found |= {
        "elapsedTime": max(one["startTime"] + one["elapsedTime"] for one in known) - found["startTime"],
        "state": _state([state_of(region) for region in regions]),
        "reason": "; ".join(f"region `{name}` has failed: {why}" for name, why in failed),
        "attributes": attributes,
        "stats": stats,
    }
    answer: InfoAnswer = found
    return answer


def _state(states: Sequence[str]) -> str:
    """The state of the application: it runs while a region does."""
    running = [state for state in states if state not in _ENDS]
    if running:
        return "PAUSED" if set(running) == {"PAUSED"} else "RUNNING"
    return next((state for state in _ENDS if state in states), "FINISHED")


def _folder_of(folders: list[Any]) -> str | None:
    """The folder of the application's checkpoint, in which those of regions are `regions/<number>`."""
    return next((folder.rpartition("/regions/")[0] or folder for folder in folders if folder), None)


def run(answers: Sequence[RunAnswer], **rules: Rule) -> Any:
    """How far all regions are: the slowest decides how much is done. `rules`: of more fields."""
    newest = max(answers, key=lambda one: one["committedAt"] or 0.0)
    return joined(
        answers,
        last=lambda _: newest["last"],
        committedAt=greatest,
        fractionDone=lambda values: None if None in values else min(values),
        remainingSeconds=greatest_if_known,
        **rules,
    )


def summary(answers: Sequence[RunSummaryAnswer]) -> RunSummaryAnswer:
    """The run in sum; times of windows are those of the region that takes longest."""
    times = dict.fromkeys(("firstSeconds", "medianSeconds", "p90Seconds"), greatest)
    found: RunSummaryAnswer = run(answers, startedAt=least, promises=promises, **times)
    found["errorTuples"] = found["errorTuples"][-_ERRORS_KEPT:]
    found["drops"] = found["drops"][-_DROPS_KEPT:]
    return found


def promises(answers: Sequence[Sequence[PromiseAnswer]]) -> list[PromiseAnswer]:
    """The promises of all regions. One that several have is as in the region where it is broken."""
    found: dict[str, PromiseAnswer] = {}
    ranks = {False: 2, True: 1, None: 0}
    for row in chain.from_iterable(answers):
        before = found.setdefault(row["promise"], row)
        if (ranks[row["kept"]], row["brokenSeconds"]) > (ranks[before["kept"]], before["brokenSeconds"]):
            found[row["promise"]] = row
    return list(found.values())
