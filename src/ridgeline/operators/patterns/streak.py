"""Several records in a row that fulfil a condition, and a threshold that does not flutter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ridgeline.api.support.results import names_call
from ridgeline.operators.patterns.pattern import Found, NumberPattern, Pattern
from ridgeline.operators.patterns.sequence import (
    Condition,
    check_condition,
    condition_columns,
    holds,
    own_condition,
)


@dataclass(frozen=True)
class Streak(Pattern):
    """See `streak`."""

    condition: Condition
    count: int
    cleared: bool = False

    def names(self) -> tuple[str, ...]:
        """The columns of a condition that is values by column."""
        return condition_columns(self.condition)

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a condition that the stream cannot answer."""
        super().check(schema)
        check_condition(self.condition, schema)

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """For each record whether it fulfils the condition."""
        found: list[bool] = holds(self.condition, batch).tolist()
        return found

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is the first record of the run and its length (0: it was found); None without a run."""
        was_found = memory is not None and not memory[1]
        if not item:
            if was_found and self.cleared:
                found.append(Found("over", time))
            return None
        if was_found:
            return memory
        since, length = memory or (time, 0)
        if length + 1 < self.count:
            return since, length + 1
        found.append(Found("streak", since))
        return since, 0


@names_call
def streak(condition: Condition, count: int, *, cleared: bool = False) -> Streak:
    """A number of records of a key in a row that all fulfil a condition: three readings above 80.

    It is found at the last of them, since the first, and counts again once a record did not fulfil the
    condition. A record for which the condition is null does not fulfil it. `cleared`: that record is
    reported, too. Findings are "streak" and "over". The condition is one of those of `sequence`, such as SQL
    text or values by column.

    Raises ValueError for a condition that is none, and for a `count` less than 1.

    >>> streak("celsius > 80", 3)
    Streak(condition='celsius > 80', count=3, cleared=False)
    """
    if count < 1:
        raise ValueError(f"`count` must be at least 1; got {count}")
    return Streak(own_condition(condition), count, cleared)


@dataclass(frozen=True)
class Hysteresis(NumberPattern):
    """See `hysteresis`."""

    above: float
    below: float
    low: bool = False
    cleared: bool = False

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is `(1,)` once the threshold was passed, until it is cleared."""
        high, low = item > self.above, item < self.below
        if not memory:
            if low if self.low else high:
                found.append(Found("below" if self.low else "above", time, item))
                return (1,)
        elif high if self.low else low:
            if self.cleared:
                found.append(Found("above" if self.low else "below", time, item))
            return None
        return memory


@names_call
def hysteresis(
    column: str, *, above: float, below: float, low: bool = False, cleared: bool = False
) -> Hysteresis:
    """A number goes above one threshold, and counts again only once it has been below the other.

    `low`: the other way round; it is found when the number goes below `below`, and counts again once it has
    been above `above`. `cleared`: the way back is reported too. Findings are "above" and "below", since the
    record that showed it. Raises ValueError if `above` is less than `below`.

    >>> hysteresis("celsius", above=80, below=70)
    Hysteresis(column='celsius', above=80, below=70, low=False, cleared=False)
    """
    if not above >= below:
        raise ValueError(f"`above` must not be less than `below`; got {above} and {below}")
    return Hysteresis(column, above, below, low, cleared)
