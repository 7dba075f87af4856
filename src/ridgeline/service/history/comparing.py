"""Two runs side by side: their windows, throughput, critical paths and operators, with the differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.service.history import differences
from ridgeline.service.history.differences import LinePairAnswer, PlanDifferenceAnswer, ValueAnswer
from ridgeline.service.history.sides import Side


class SideAnswer(TypedDict):
    """One of the two runs."""

    name: Annotated[str, "The application."]
    application: Annotated[str, "The id of this run of the application."]
    began: Annotated[float | None, "When it began, seconds since 1970."]
    state: Annotated[str, "That of its sentence."]
    sentence: Annotated[str, "How it did."]
    windows: Annotated[list[tuple[float, float]], "Seconds since the first kept window, and latency in ms."]
    marks: Annotated[
        list[tuple[float, str, str, str]],
        "What happened in them: seconds since the first, kind, level and text, as `/marks` has them.",
    ]
    path: Annotated[list[str], "The critical path of its last windows, by title."]


class FigureAnswer(TypedDict):
    """A figure of both runs; null where it is not known."""

    name: Annotated[str, "The figure."]
    unit: Annotated[str, "`ms`, `/s`, or empty for a number."]
    lessIsBetter: Annotated[bool | None, "Whether a smaller one is better; null: neither is."]
    values: Annotated[tuple[float | None, float | None], "Of the first and the second run."]
    difference: Annotated[float | None, "The second less the first."]
    ratio: Annotated[float | None, "The second through the first; null without a first one."]


class OperatorPairAnswer(TypedDict):
    """A logical operator in both runs."""

    operator: Annotated[str, "Its name."]
    partitions: Annotated[tuple[int | None, int | None], "Its partitions; null where a run has it not."]
    figures: Annotated[list[FigureAnswer], "Latencies, tuples, and the share of windows on the path."]


class ComparisonAnswer(TypedDict):
    """Two runs side by side."""

    runs: Annotated[list[SideAnswer], "The two runs."]
    figures: Annotated[list[FigureAnswer], "Of the runs as a whole, over the windows that are kept."]
    operators: Annotated[list[OperatorPairAnswer], "By name, those of the first run first."]
    versions: Annotated[list[ValueAnswer], "Versions that differ."]
    configuration: Annotated[list[ValueAnswer], "Values that both runs keep, and that differ."]
    plan: Annotated[list[PlanDifferenceAnswer], "Operators and streams that differ."]
    lines: Annotated[list[LinePairAnswer], "Lines of code with the most time; none unless both have some."]


def compare(first: Side, second: Side) -> ComparisonAnswer:
    """Both runs. Percentiles of windows are over those that are kept, at most 1,000."""
    sides = first, second
    wholes = [_whole(side) for side in sides]
    operators = [_operators(side) for side in sides]
    names = dict.fromkeys(name for one in operators for name in one)
    return {
        "runs": [_shown(side) for side in sides],
        "figures": _pairs(_WHOLE, wholes),
        "operators": [
            {
                "operator": name,
                "partitions": (
                    operators[0].get(name, {}).get("partitions"),
                    operators[1].get(name, {}).get("partitions"),
                ),
                "figures": _pairs(_OPERATOR, [one.get(name, {}) for one in operators]),
            }
            for name in names
        ],
        "versions": differences.versions(first, second),
        "configuration": differences.configuration(first, second),
        "plan": differences.plans(first, second),
        "lines": differences.lines(first, second),
    }


_Kinds = Sequence[tuple[str, str, bool | None]]
_WHOLE: _Kinds = (
    ("window latency, median", "ms", True),
    ("window latency, p99", "ms", True),
    ("window latency, longest", "ms", True),
    ("critical path, mean", "ms", True),
    ("began late, p99", "ms", True),
    ("record age at the worst sink, p99", "ms", True),
    ("tuples in", "/s", False),
    ("tuples out", "/s", False),
    ("windows committed", "", None),
    ("attempts made again", "", True),
    ("slots lost", "", True),
)
_OPERATOR: _Kinds = (
    ("latency, median", "ms", True),
    ("latency, p99", "ms", True),
    ("compute a window", "ms", True),
    ("tuples in", "", None),
    ("tuples out", "", None),
    ("windows on the critical path", "share", None),
)


def _pairs(kinds: _Kinds, values: Sequence[Mapping[str, Any]]) -> list[FigureAnswer]:
    """The figures of both, with their differences."""
    found: list[FigureAnswer] = []
    for name, unit, less in kinds:
        one, other = (_known(value.get(name)) for value in values)
        known = one is not None and other is not None
        found.append(
            {
                "name": name,
                "unit": unit,
                "lessIsBetter": less,
                "values": (one, other),
                "difference": other - one if one is not None and other is not None else None,
                "ratio": other / one if known and one and other is not None else None,
            }
        )
    return found


def _known(value: Any) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _shown(side: Side) -> SideAnswer:
    """Who a run is, how it did, and its windows."""
    began = side.windows[0]["triggeredAt"] if side.windows else 0.0
    return {
        "name": str(side.info.get("name", "")),
        "application": str(side.info.get("id", "")),
        "began": _known(side.info.get("startTime")),
        "state": side.sentence["state"],
        "sentence": side.sentence["text"],
        "windows": [(one["triggeredAt"] - began, one["latencyMs"]) for one in side.windows],
        "marks": [
            (one["at"] - began, one["kind"], one["level"], one["text"])
            for one in side.marks
            if side.windows and one["at"] >= began
        ],
        "path": list(side.path),
    }


def _whole(side: Side) -> Mapping[str, Any]:
    """The figures of a run as a whole, by the names of `_WHOLE`."""
    windows = side.windows
    latencies = [one["latencyMs"] for one in windows]
    paths = [one["criticalPathMs"] for one in windows]
    seconds = windows[-1]["committedAt"] - windows[0]["triggeredAt"] if windows else 0.0
    ages = [row["p99Ms"] for row in side.ages if row["at"] in {"publish", "commit"}]
    return {
        "window latency, median": percentile(latencies, 0.5),
        "window latency, p99": percentile(latencies, 0.99),
        "window latency, longest": max(latencies, default=None),
        "critical path, mean": sum(paths) / len(paths) if paths else None,
        "began late, p99": percentile([one["lateMs"] for one in windows], 0.99),
        "record age at the worst sink, p99": max((age for age in ages if age is not None), default=None),
        "tuples in": sum(one["tuplesIn"] for one in windows) / seconds if seconds > 0 else None,
        "tuples out": sum(one["tuplesOut"] for one in windows) / seconds if seconds > 0 else None,
        "windows committed": side.info.get("stats", {}).get("windowsCommitted"),
        "attempts made again": side.retries,
        "slots lost": side.slots_lost,
    }


def _operators(side: Side) -> Mapping[str, Mapping[str, Any]]:
    """The figures of logical operators, by name and by the names of `_OPERATOR`."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in side.latencies:
        name = row["operator"]
        total = side.totals.get(name, {})
        computed = "seconds" in total
        found[name] = {
            "partitions": side.partitions.get(name),
            "latency, median": row["p50Ms"],
            "latency, p99": row["p99Ms"],
            "compute a window": 1000 * total["seconds"] / max(1, total["windows"]) if computed else None,
            "tuples in": total.get("tuplesIn"),
            "tuples out": total.get("tuplesOut"),
            "windows on the critical path": side.shares.get(name, 0.0),
        }
    return found


def percentile(values: Iterable[float], share: float) -> float | None:
    """The least value that so great a share of the values does not exceed; None of none.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([], 0.5)
    (2.0, None)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
