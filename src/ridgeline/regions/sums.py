"""Sums of the answers of several regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar, cast

from ridgeline.measure.answers.application import (
    InfoAnswer,
    PendingInfoAnswer,
    RunAnswer,
    RunSummaryAnswer,
    StatsAnswer,
)
from ridgeline.measure.answers.changes import PromiseAnswer
from ridgeline.measure.answers.history import ApplicationHistoryAnswer, ApplicationStepAnswer
from ridgeline.measure.answers.operators import StreamAnswer
from ridgeline.measure.answers.windows import CriticalPathAnswer, LatencyAnswer
from ridgeline.measure.topology import StreamEdge
from ridgeline.regions.region_run import RegionRun

_ERRORS_KEPT, _DROPS_KEPT = 10, 5
_GREATEST = ("currentWindowId", "recoveryWindowId")
_NO_SUM = {"latency", "criticalPath", "windowLatency", "windowStartMillis", "messagesRefusedByReason"}
_ENDS = ("FAILED", "STOPPED", "FINISHED")
AnyRow = TypeVar("AnyRow")


def last(rows: Sequence[AnyRow], limit: int | None) -> list[AnyRow]:
    """The last rows, at most `limit`."""
    return list(rows if limit is None else rows[-limit:])


def histories(answers: Sequence[tuple[str, ApplicationHistoryAnswer]]) -> ApplicationHistoryAnswer:
    """The steps of all regions by time. A region with many operators has longer steps than others."""
    steps = [{**step, "region": name} for name, answer in answers for step in answer["steps"]]
    return {
        "step": max((answer["step"] for _, answer in answers), default=1),
        "keptSeconds": min((answer["keptSeconds"] for _, answer in answers), default=0),
        "steps": cast("list[ApplicationStepAnswer]", sorted(steps, key=itemgetter("at"))),
    }


def state_of(region: RegionRun) -> str:
    """The state of a region: `PAUSED` too, and what its events say where it has no thread here."""
    seen = str(region.watch.info()["state"])
    if region.state in {"STARTING", "RUNNING"} and seen != "PENDING":
        return seen
    return "PENDING" if region.state == "STARTING" else region.state


def failure_of(region: RegionRun) -> str:
    """Why a region has failed; empty if it has not."""
    if region.error is not None:
        return str(region.error) or type(region.error).__name__
    info = region.watch.info()
    return info["reason"] if "id" in info else ""


def info(
    regions: Sequence[RegionRun],
    infos: Sequence[InfoAnswer | PendingInfoAnswer],
    path: CriticalPathAnswer,
) -> InfoAnswer | PendingInfoAnswer:
    """The application, of its regions. `path`: the joined one."""
    known = [one for one in infos if "id" in one]
    if not known:
        return {"state": "PENDING", "stats": {}}
    pairs = [(region, one) for region, one in zip(regions, infos, strict=True) if "id" in one]
    first = known[0]
    failed = [(region.name, failure_of(region)) for region in regions if state_of(region) == "FAILED"]
    kept = {name: value for one in known for name, value in one["propertiesKept"].items()}
    attributes: dict[str, Any] = {}
    for region, one in pairs:
        own = region.region.attributes
        attributes |= {
            name: value
            for name, value in one["attributes"].items()
            if name not in own and name not in attributes
        }
    start = min(one["startTime"] for one in known)
    return {
        **first,
        "checkpoint": _folder_of([one["checkpoint"] for one in known if one["checkpoint"]]),
        "propertiesKept": kept,
        "startTime": start,
        "elapsedTime": max(one["startTime"] + one["elapsedTime"] for one in known) - start,
        "state": _state([state_of(region) for region in regions]),
        "reason": "; ".join(f"region `{name}` has failed: {why}" for name, why in failed),
        "planVersion": sum(one["planVersion"] for one in known),
        "windowSeconds": min(one["windowSeconds"] for one in known),
        "attributes": attributes,
        "stats": _stats([one["stats"] for one in known], path),
    }


def _state(states: Sequence[str]) -> str:
    """The state of the application: it runs while a region does."""
    running = [state for state in states if state not in _ENDS]
    if running:
        return "PAUSED" if set(running) == {"PAUSED"} else "RUNNING"
    return next((state for state in _ENDS if state in states), "FINISHED")


def _folder_of(folders: Sequence[str]) -> str | None:
    """The folder that all are in, or the only one."""
    if not folders:
        return None
    parts = [folder.split("/") for folder in folders]
    count = 0
    while all(len(one) > count and one[count] == parts[0][count] for one in parts):
        count += 1
    if len(set(folders)) == 1:
        return folders[0]
    shared = parts[0][:count]
    return "/".join(shared[:-1] if shared and shared[-1] == "regions" else shared)


def _stats(stats: Sequence[StatsAnswer], path: CriticalPathAnswer) -> StatsAnswer:
    """The figures of all regions: counts in sum, windows of the newest, times of the joined path."""
    rows = cast("Sequence[dict[str, Any]]", stats)
    found: dict[str, Any] = {}
    for name, value in rows[0].items():
        values = [row[name] for row in rows if row[name] is not None]
        if isinstance(value, dict):
            found[name] = {key: one for row in values for key, one in row.items()}
        elif name in _GREATEST:
            found[name] = max(values, default=None)
        elif name not in _NO_SUM:
            found[name] = sum(values) if values else None
    starts = [row["windowStartMillis"] for row in rows if row["windowStartMillis"] is not None]
    refused: Counter[str] = Counter()
    for row in rows:
        refused.update(row["messagesRefusedByReason"])
    found |= {
        "latency": path["average"]["latencyMs"],
        "criticalPath": path["average"]["path"],
        "windowLatency": path["windowLatencyMs"],
        "windowStartMillis": min(starts, default=None),
        "messagesRefusedByReason": dict(refused),
    }
    return cast("StatsAnswer", found)


def run(answers: Sequence[RunAnswer]) -> RunAnswer:
    """How far all regions are: the slowest decides how much is done."""
    began = [one for one in answers if one["windows"]]
    fractions = [one["fractionDone"] for one in answers]
    left = [one["remainingSeconds"] for one in answers]
    newest = max(began, key=lambda one: one["committedAt"] or 0.0, default=None)
    return {
        "windows": sum(one["windows"] for one in answers),
        "last": None if newest is None else newest["last"],
        "committedAt": None if newest is None else newest["committedAt"],
        "fractionDone": None if None in fractions else min(cast("list[float]", fractions), default=None),
        "remainingSeconds": None if None in left else max(cast("list[float]", left), default=None),
    }


def summary(answers: Sequence[RunSummaryAnswer], promised: list[PromiseAnswer]) -> RunSummaryAnswer:
    """The run in sum; times of windows are those of the region that takes longest."""

    def greatest(name: str) -> float | None:
        values = [cast("Any", one)[name] for one in answers]
        return max((value for value in values if value is not None), default=None)

    starts = [one["startedAt"] for one in answers if one["startedAt"] is not None]
    return {
        **run(answers),
        "retries": sum(one["retries"] for one in answers),
        "tasksRetried": sum(one["tasksRetried"] for one in answers),
        "slotsLost": sum(one["slotsLost"] for one in answers),
        "startedAt": min(starts, default=None),
        "firstSeconds": greatest("firstSeconds"),
        "medianSeconds": greatest("medianSeconds"),
        "p90Seconds": greatest("p90Seconds"),
        "operators": list(chain.from_iterable(one["operators"] for one in answers)),
        "errorTuples": list(chain.from_iterable(one["errorTuples"] for one in answers))[-_ERRORS_KEPT:],
        "promises": promised,
        "drops": list(chain.from_iterable(one["drops"] for one in answers))[-_DROPS_KEPT:],
    }


def latency(answers: Sequence[tuple[str, LatencyAnswer]]) -> LatencyAnswer:
    """The rows of all regions. The window is the greatest; each row names its region."""
    windows = [one["windowId"] for _, one in answers if one["windowId"] is not None]
    return {
        "windowId": max(windows, default=None),
        "operators": list(chain.from_iterable(one["operators"] for _, one in answers)),
        "logical": list(chain.from_iterable(one["logical"] for _, one in answers)),
        "clamps": sum(one["clamps"] for _, one in answers),
        "windows": {name: one["windowId"] for name, one in answers},
    }


def promises(answers: Sequence[Sequence[PromiseAnswer]]) -> list[PromiseAnswer]:
    """The promises of all regions. One that several have is as in the region where it is broken."""
    found: dict[str, PromiseAnswer] = {}
    ranks = {False: 2, True: 1, None: 0}
    for row in chain.from_iterable(answers):
        before = found.get(row["promise"])
        if before is None or (ranks[row["kept"]], row["brokenSeconds"]) > (
            ranks[before["kept"]],
            before["brokenSeconds"],
        ):
            found[row["promise"]] = row
    return list(found.values())


def stream_rows(edges: Iterable[StreamEdge]) -> list[StreamAnswer]:
    """The streams through queues, a row for each partition of a writer."""
    found: dict[tuple[str, int], StreamAnswer] = {}
    for edge in edges:
        row = found.setdefault(
            (edge.name, edge.source),
            {
                "logicalName": edge.name,
                "source": {"operatorId": edge.source, "portName": edge.source_port},
                "sinks": [],
                "kind": "queue",
            },
        )
        row["sinks"].append({"operatorId": edge.sink, "portName": edge.sink_port})
    return list(found.values())
