"""What containers cost in a simulation, drawn from figures that were measured: `simulated_costs.json`.

`measured_costs.py` writes that table. It has quantiles of times, and events of a real run as they are:
reports and heartbeats of a simulation are as large as those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

from pydantic import TypeAdapter

from ridgeline.measure.encoding import from_dict
from ridgeline.measure.events import ContainerHeartbeat, OperatorWindow
from ridgeline.plan.physical import PhysicalOperator

TABLE = Path(__file__).with_name("simulated_costs.json")
ROLES = ("input", "unifier", "keyed", "output")
SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


class Turn(NamedTuple):
    """What the turn of one operator takes, in seconds."""

    compute: float
    transfer: float


class Costs:
    """What the parts of a window take, in seconds. These take nothing, others override them."""

    def turn(self, _window: int, _operator: PhysicalOperator, _role: str) -> Turn:
        """The turn of an operator."""
        return Turn(0.0, 0.0)

    def restore(self) -> float:
        """A container goes to the states that a request names."""
        return 0.0

    def write(self) -> float:
        """A container writes what has changed."""
        return 0.0

    def hop(self) -> float:
        """From a container's end to the next one's turn, and from the driver to a slot and back."""
        return 0.0

    def start(self) -> float:
        """From a job to the process that has joined."""
        return 0.0

    def restart(self) -> float:
        """From the loss of a process to the next one, which Spark starts by itself."""
        return 0.0

    def sync(self) -> float:
        """A commit waits for the disk."""
        return 0.0

    def like(self, _role: str) -> OperatorWindow | None:
        """An event of such an operator in a real run; None: reports have figures only."""
        return None


def quantiles(samples: Sequence[float]) -> list[float]:
    """The values at `SHARES` of samples. Raises ValueError without any."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    return [round(ordered[round(share * (len(ordered) - 1))], 9) for share in SHARES]


@dataclass
class MeasuredCosts(Costs):
    """Costs drawn from a table: a value between two quantiles is as likely as another there.

    `table`: as `measured` makes it. `seed`: two with the same draw the same.
    """

    table: Mapping[str, Any]
    seed: int = 0
    _random: Random = field(init=False)
    _likes: dict[str, OperatorWindow] = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._likes = {
            role: TypeAdapter(OperatorWindow).validate_python(self.table["events"][role]) for role in ROLES
        }

    @classmethod
    def shipped(cls, seed: int = 0) -> MeasuredCosts:
        """Those of the table that lies here."""
        return cls(json.loads(TABLE.read_text(encoding="utf-8")), seed)

    def _draw(self, values: Sequence[float]) -> float:
        share = self._random.random()
        for (low, first), (high, last) in zip(
            zip(SHARES, values, strict=True), zip(SHARES[1:], values[1:], strict=True), strict=False
        ):
            if share <= high:
                return first + (last - first) * (share - low) / (high - low)
        return values[-1]

    def turn(self, _window: int, _operator: PhysicalOperator, role: str) -> Turn:
        """As `Costs.turn`."""
        found = self.table["operators"][role]
        return Turn(self._draw(found["compute"]), self._draw(found["transfer"]))

    def restore(self) -> float:
        """As `Costs.restore`."""
        return self._draw(self.table["restore"])

    def write(self) -> float:
        """As `Costs.write`."""
        return self._draw(self.table["write"])

    def hop(self) -> float:
        """As `Costs.hop`."""
        return self._draw(self.table["hop"])

    def start(self) -> float:
        """As `Costs.start`."""
        return self._draw(self.table["start"])

    def restart(self) -> float:
        """As `Costs.restart`."""
        return self._draw(self.table["restart"])

    def sync(self) -> float:
        """As `Costs.sync`."""
        return self._draw(self.table["sync"])

    def like(self, role: str) -> OperatorWindow | None:
        """As `Costs.like`."""
        return self._likes[role]

    def heartbeats(self) -> list[ContainerHeartbeat]:
        """Heartbeats of a real run: without the time by line, and with it."""
        return [cast("ContainerHeartbeat", from_dict(one)) for one in self.table["heartbeats"]]
