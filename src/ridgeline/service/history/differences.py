"""Differences of two runs beside their figures: versions, values, plans, and where the time goes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from ridgeline.service.history.sides import Row, Side

MOST_LINES = 50
"""Lines of code that are compared, those with the most time first."""


class ValueAnswer(TypedDict):
    """A value that differs."""

    name: Annotated[str, "What has it: a key of the configuration, or what has a version."]
    values: Annotated[tuple[str | None, str | None], "Of the first and the second run; null: it has none."]


class PlanDifferenceAnswer(TypedDict):
    """An operator or a stream that differs."""

    kind: Annotated[str, "`operator` or `stream`."]
    name: Annotated[str, "Its name."]
    values: Annotated[tuple[str | None, str | None], "In the first and the second run; null: it has it not."]


class LinePairAnswer(TypedDict):
    """A line of code in both runs, by its text: line numbers move."""

    operator: Annotated[str, "The logical operator."]
    function: Annotated[str, "The function that it is in."]
    text: Annotated[str, "The line itself, else its file and number."]
    shares: Annotated[tuple[float, float], "Its part of the operator's time, in the first and second run."]


def versions(first: Side, second: Side) -> list[ValueAnswer]:
    """The versions of both, where one of them is another; what an event log does not know is null."""
    return _values(*({name: str(one) for name, one in side.versions.items()} for side in (first, second)))


def configuration(first: Side, second: Side) -> list[ValueAnswer]:
    """The values that differ, by key, as JSON. A mask stands for secrets, which are equal then.

    Only keys that both sides have count: a bundle knows options of a run, too, which an event log does not.
    """
    sides = [{_key(row): _text(row["value"]) for row in side.configuration} for side in (first, second)]
    shared = sides[0].keys() & sides[1].keys()
    return _values(*({key: value for key, value in side.items() if key in shared} for side in sides))


def _key(row: Row) -> str:
    """The key of a value; a property is called the same with and without `prop.`."""
    operator = row["operator"]
    if not operator:
        return str(row["key"])
    start = f"operator.{operator}."
    return start + str(row["key"]).removeprefix(start).removeprefix("prop.")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _values(first: Mapping[str, str], second: Mapping[str, str]) -> list[ValueAnswer]:
    names = dict.fromkeys((*first, *second))
    return [
        {"name": name, "values": (first.get(name), second.get(name))}
        for name in names
        if first.get(name) != second.get(name)
    ]


def plans(first: Side, second: Side) -> list[PlanDifferenceAnswer]:
    """Operators and streams that only one run has, or that are another class, or go elsewhere."""
    found: list[PlanDifferenceAnswer] = []
    for kind, parts in (("operator", _operators), ("stream", _streams)):
        one, other = (dict(parts(side)) for side in (first, second))
        found += [{"kind": kind, "name": row["name"], "values": row["values"]} for row in _values(one, other)]
    return found


def _operators(side: Side) -> Iterator[tuple[str, str]]:
    for one in side.plan.get("operators", ()):
        yield str(one["name"]), str(one["class"])


def _streams(side: Side) -> Iterator[tuple[str, str]]:
    for one in side.plan.get("streams", ()):
        yield str(one["name"]), f"{_end(one['source'])} → {', '.join(sorted(map(_end, one['sinks'])))}"


def _end(end: Row) -> str:
    return f"{end['operatorName']}.{end['portName']}"


def lines(first: Side, second: Side) -> list[LinePairAnswer]:
    """The lines with the most time in either run, where both have some; else none."""
    if not first.lines or not second.lines:
        return []
    sides = [_shares(side.lines) for side in (first, second)]
    keys = dict.fromkeys((*sides[0], *sides[1]))
    pairs: list[LinePairAnswer] = [
        {
            "operator": operator,
            "function": function,
            "text": text,
            "shares": (
                sides[0].get((operator, function, text), 0.0),
                sides[1].get((operator, function, text), 0.0),
            ),
        }
        for operator, function, text in keys
    ]
    return sorted(pairs, key=lambda row: -max(row["shares"]))[:MOST_LINES]


def _shares(rows: Sequence[Row]) -> dict[tuple[str, str, str], float]:
    """The share of each line, by operator, function and text."""
    found: dict[tuple[str, str, str], float] = {}
    for row in rows:
        for line in row["lines"]:
            if line["line"]:
                text = line["text"].strip() or f"{line['file']}:{line['line']}"
                key = str(row["operator"]), str(line["function"]), text
                found[key] = found.get(key, 0.0) + line["share"]
    return found
