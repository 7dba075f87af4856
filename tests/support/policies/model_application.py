"""A chain of operators, second by second: load, costs, skew and unifiers make the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event
from types import SimpleNamespace

from ridgeline.measure.deciding.figures import (
    ApplicationFigures,
    Edge,
    OperatorFigures,
    PartitionFigures,
    SourceFigures,
    Spread,
)
from ridgeline.plan.edits import Edit, Repartition
from ridgeline.policies import Policy
from ridgeline.policies.deciding import Deciders


@dataclass
class Step:
    """An operator: useful seconds for each tuple, what does not divide, the share of its hottest key."""

    name: str
    cost: float
    partitions: int = 1
    fixed: float = 0.0
    hot: float = 0.0
    unifier: float = 0.001
    is_input: bool = False
    refuses: bool = False

    def share(self, partitions: int | None = None) -> float:
        """The share of the tuples that the busiest partition gets."""
        number = partitions or self.partitions
        return self.hot + (1 - self.hot) / number if number > 1 else 1.0


class _Operator(OperatorFigures):
    keys = slots = None

    def __init__(self) -> None:
        """Only what a test says is known."""

    def for_seconds(self, seconds: float) -> OperatorFigures:
        return self


class _Application(ApplicationFigures):
    def __init__(self) -> None:
        """Only what a test says is known."""

    def for_seconds(self, seconds: float) -> ApplicationFigures:
        return self


def spread(seconds: float) -> Spread:
    """As if all windows had taken as long."""
    return Spread(seconds, seconds, seconds, seconds, seconds, 50)


@dataclass
class Model:
    """The application: `load` says how many tuples arrive in each second."""

    steps: Sequence[Step]
    load: Callable[[int], float]
    slots: int = 8
    window: float = 0.5
    backlog: float = 0.0
    version: int = 0
    second: int = 0
    log: list[tuple[int, str]] = field(default_factory=list)
    plans: list[dict[str, int]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def capacity(self) -> float:
        """Tuples a second that the slowest operator can do."""
        return min(
            (1 - step.fixed / self.window) / (step.cost * step.share())
            for step in self.steps
            if step.cost > 0
        )

    def figures(self, second: int) -> ApplicationFigures:
        """What is seen at the end of this second."""
        arriving = self.load(second)
        taken = max(min(arriving + self.backlog, self.capacity()), 1e-6)
        grows = arriving - taken
        self.backlog = max(self.backlog + grows, 0.0)
        operators: dict[str, OperatorFigures] = {}
        total = 0.0
        for step in self.steps:
            one = _operator(step, taken, self.window)
            total += one.latency.p50_seconds or 0.0
            operators[step.name] = one
        self.latencies.append(total)
        self.plans.append({step.name: step.partitions for step in self.steps})
        result = _Application()
        for name, value in {
            "name": "model",
            "at": float(second),
            "seconds": 60.0,
            "window_seconds": self.window,
            "windows": 50,
            "plan_version": self.version,
            "committed": second,
            "operators": operators,
            "edges": tuple(
                Edge(f"{one.name}_{other.name}", one.name, other.name, round(taken))
                for one, other in pairwise(self.steps)
            ),
            "sources": (SourceFigures("source", arriving, taken, self.backlog, grows, None, ""),),
            "window_latency": spread(total),
            "late_seconds": 0.0,
            "verdict": "",
            "slots": self.slots,
            "changing": False,
            "blame": {},
            "promises": (),
        }.items():
            setattr(result, name, value)
        return result

    def run(self, policy: Policy, seconds: int) -> Model:
        """So many seconds under a policy; what it decides is done at once, and looked at as in a run."""
        deciders = Deciders({}, [policy], self._ask, lambda _: None, strict=True)
        for self.second in range(seconds):
            deciders.look(self.figures(self.second))
        return self

    def _ask(self, edits: Sequence[Edit], note: str, _who: str) -> SimpleNamespace:
        """A change that is made, or refused, before anybody asks what has become of it."""
        self.log.append((self.second, note))
        made = self.apply(edits)
        self.version += made
        done = Event()
        done.set()
        state = "APPLIED" if made else "REFUSED"
        return SimpleNamespace(number=len(self.log), state=state, reason="", done=done)

    def apply(self, edits: Sequence[Edit]) -> int:
        """Change the numbers of partitions; 0 if it is refused."""
        by_name = {step.name: step for step in self.steps}
        done = 0
        for edit in edits:
            assert isinstance(edit, Repartition)
            assert edit.partitions is not None
            if not by_name[edit.operator].refuses:
                by_name[edit.operator].partitions = edit.partitions
                done = 1
        return done


def _operator(step: Step, taken: float, window: float) -> OperatorFigures:
    compute = taken * window * step.cost * step.share()
    unifier = step.unifier * step.partitions if step.partitions > 1 else 0.0
    useful = compute + step.fixed
    utilization = min(useful / window, 1.0)
    latency = useful + unifier
    ids = range(step.partitions)
    rest = (1 - step.share()) / max(step.partitions - 1, 1)
    shares = [step.share() if number == 0 else rest for number in ids]
    result = _Operator()
    parts = tuple(
        PartitionFigures(
            id=number,
            partition=number,
            host=None,
            container=number,
            process=number,
            tuples_in=0,
            tuples_out=0,
            useful_seconds=0.0,
            compute_seconds=compute,
            cpu_seconds=compute,
            transfer_seconds=step.fixed,
            utilization=utilization * shares[number] / shares[0],
            true_rate=None,
            queue=None,
            errors=0,
            late_records=0,
            critical_path_share=1.0,
        )
        for number in ids
    )
    values = {
        "name": step.name,
        "partitions": step.partitions,
        "is_input": step.is_input,
        "is_output": False,
        "tuples_in_per_second": taken,
        "tuples_out_per_second": taken,
        "utilization": utilization,
        "imbalance": step.share() * step.partitions,
        "latency": spread(latency),
        "compute": spread(compute),
        "transfer": spread(step.fixed),
        "wait": spread(0.0),
        "critical_path_share": 1.0,  # in a chain all are on it
        "slack_seconds": 0.0,
        "by_partition": parts,
        "unifier_seconds": unifier,
        "windows": 50,
    }
    for name, value in values.items():
        setattr(result, name, value)
    return result
