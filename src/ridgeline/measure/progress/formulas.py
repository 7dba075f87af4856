"""How far a window is and how long it will still take: Beam's progress formulas over a whole topology.

The formulas are those of the Apache Beam Fn API's progress report
(https://s.apache.org/beam-fn-api-progress-reporting) with their slips corrected; F1 to F7 number them. C are
consumed tuples, A active ones. P and AP were produced for consumed and for active ones, AR is expected for
active ones. T are the seconds spent:

- F1 `active_fraction`: f = AP / (AP + AR), both over all outputs;
- F2 `seconds_per_element`: T / (C + A f);
- F3 `outputs_per_element`, per output: (P + AP + AR) / (C + A);
- F4 `buffered`: (P + AP) of the streams into the operator - C - A, at least 0;
- F5 `input_remaining`: buffered + the outputs remaining of the streams into the operator;
- F6 `output_remaining`, per output: input remaining x F3 + AR;
- F7 `backlog_seconds`: F2 x (input remaining + A (1 - f)).

Beam leaves open, and is decided here:

- An AR that is not reported is an average: max(0, A P / C - AP). A negative AR is infinite, and so is the
  time left then.
- Where nothing shows how far the active tuples are (no output yet, or no output port), f is unknown. It
  counts as a half if other tuples were consumed. If none were, the averages of earlier windows decide, and
  without them the time is unknown.
- An input operator has one active element, the window. `progress()` is about the whole source. The window's
  share of what remains is the average work of a window less the work done in this one. Without earlier
  windows all that remains counts, an upper bound.
- An operator that runs and has nothing left is in `end_window`: it still takes what it takes on average less
  what it has spent. If it has produced nothing at a port so far but did in earlier windows, that is still to
  come.
- The containers of a stage begin when the stage before is done: a report from a later stage says that earlier
  ones are done.
- Sums over operators are CPU seconds. The wall time left is, stage after stage, that of the container with
  the most left. A container works with one thread, and those of a stage run side by side as far as there are
  slots.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ridgeline.measure.events import RunningOperator
from ridgeline.measure.progress.estimate import NOTHING, UNKNOWN, Basis, Estimate, greatest, total
from ridgeline.measure.topology import OperatorNode, StreamEdge, Topology

MOST = 1e18  # counts and seconds above are read as this: no product of them overflows by accident
ROUNDED = 1e-9  # of the tuples that came, what is less is left by rounding
UNSEEN_FRACTION = 0.5
OUTPUTS_NEEDED = 2.0  # of an active tuple: with fewer, the output so far does not show how far it is


@dataclass(frozen=True, slots=True)
class History:
    """Averages of an operator's earlier windows; None where nothing is known.

    `end_seconds` of `seconds` were spent in `end_window`.

    `elements` consumed and `seconds` spent per window; an input operator consumes one element, the window.
    `work` per window is that of an input operator, in the unit of its `progress()`. `work_before` is its work
    up to the end of the last window.
    """

    seconds_per_element: float | None = None
    outputs_per_element: Mapping[str, float] = field(default_factory=dict)
    elements: float | None = None
    seconds: float | None = None
    end_seconds: float | None = None
    work: float | None = None
    work_before: float | None = None


@dataclass(frozen=True, slots=True)
class OperatorProgress:
    """The figures of one operator in a running window.

    `state` is `waiting`, `running`, `done`, or `unknown` for an operator whose container has not reported.
    `produced` and `output_remaining` are per output port, in tuples. `oldest_in_flight`, per output port: the
    oldest time of the records in the operator and before it, Beam's tentative watermark.
    """

    id: int
    state: str
    consumed: float
    active: float
    produced: Mapping[str, float]
    seconds_spent: float
    active_fraction: Estimate
    seconds_per_element: Estimate
    buffered: Estimate
    input_remaining: Estimate
    output_remaining: Mapping[str, Estimate]
    remaining_seconds: Estimate
    oldest_in_flight: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class WindowProgress:
    """The figures of a running window.

    Seconds left: `containers` and `cpu_seconds` as sums over operators, `wall_seconds` by stages.
    """

    operators: Mapping[int, OperatorProgress]
    containers: Mapping[int, Estimate]
    cpu_seconds: Estimate
    wall_seconds: Estimate


# Formulas ---------------------------------------------------------------------------------------------------


def active_fraction(active_produced: float, active_remaining: Estimate) -> Estimate:
    """F1: how much of the active elements is done, from 0 to 1; unknown if no output shows it."""
    expected = active_remaining.value
    if expected is None or active_produced + expected == 0:
        return UNKNOWN
    return Estimate(active_produced / (active_produced + expected), Basis.ESTIMATED)


def seconds_per_element(seconds: float, consumed: float, active: float, fraction: Estimate) -> Estimate:
    """F2: the average seconds of an input element; unknown if nothing is known to be processed."""
    unseen = UNSEEN_FRACTION if consumed else 0.0
    processed = consumed + active * (unseen if fraction.value is None else fraction.value)
    return Estimate(seconds / processed, Basis.ESTIMATED) if processed > 0 else UNKNOWN


def outputs_per_element(produced: float, active_remaining: Estimate, elements: float) -> Estimate:
    """F3: the average outputs of an input element at one port; `produced` is P + AP, `elements` is C + A."""
    if elements <= 0:
        return UNKNOWN
    expected = Estimate(produced, Basis.ESTIMATED) + active_remaining
    return Estimate(None if expected.value is None else expected.value / elements, expected.basis)


def buffered(delivered: Estimate, consumed: float, active: float) -> Estimate:
    """F4: elements on their way to the operator or waiting in it, not begun.

    `delivered` is P + AP of the streams into it.
    """
    if delivered.value is None:
        return UNKNOWN
    rest = delivered.value - consumed - active
    return Estimate(0.0 if rest < ROUNDED * delivered.value else rest, delivered.basis)


def input_remaining(waiting: Estimate, parents: Iterable[Estimate]) -> Estimate:
    """F5: elements that the operator will still begin: buffered ones and those to come from its parents."""
    return total((waiting, *parents))


def output_remaining(elements: Estimate, average: Estimate, active_remaining: Estimate) -> Estimate:
    """F6: tuples still to be produced at one port; `elements` is the input remaining."""
    return elements * average + active_remaining


def even_shares(topology: Topology) -> dict[StreamEdge, Estimate]:
    """The share of its source port's tuples that each stream carries, as long as nothing better is known.

    A port that feeds n partitions of one operator, or the unifiers before them, divides its tuples among
    them: an nth each, estimated.
    """
    behind: dict[int, frozenset[str]] = {}
    for node in reversed(topology.operators):
        sinks = topology.downstream[node.id] if node.unifier else ()
        behind[node.id] = (
            frozenset[str]().union(*(behind[sink] for sink in sinks))
            if node.unifier
            else frozenset({node.name})
        )
    groups: dict[tuple[int, str, frozenset[str], str], list[StreamEdge]] = {}
    for edge in topology.streams:
        groups.setdefault((edge.source, edge.source_port, behind[edge.sink], edge.sink_port), []).append(edge)
    shares: dict[StreamEdge, Estimate] = {}
    for edges in groups.values():
        share = Estimate(1.0 / len(edges), Basis.EXACT if len(edges) == 1 else Basis.ESTIMATED)
        shares.update(dict.fromkeys(edges, share))
    return shares


def window_progress(
    topology: Topology,
    running: Mapping[int, RunningOperator],
    history: Mapping[int, History] | None = None,
    shares: Mapping[StreamEdge, Estimate] | None = None,
    ages: Mapping[int, float] | None = None,
    finished: Collection[int] = (),
) -> WindowProgress:
    """The progress of a running window.

    Args:
        topology: The operators and streams.
        running: The last heartbeats, by operator id; operators whose container has not reported are missing.
        history: Averages of earlier windows, by operator id.
        shares: The share of its source port's tuples of each stream; `even_shares` where missing.
        ages: By container, how many seconds ago it reported: its running operator is assumed to have worked
            since.
        finished: Containers that are known to be done; their last heartbeat is ignored.
    """
    reporting = [topology.by_id[identity].stage for identity in running if identity in topology.by_id]
    stage = max(reporting, default=-1)
    shares = shares or {}
    if len(shares) < len(topology.streams):
        shares = even_shares(topology) | dict(shares)
    work = _Pass(topology, running, history or {}, shares, stage, frozenset(finished), {})
    for node in topology.operators:
        work.visit(node, (ages or {}).get(node.container, 0.0))
    operators = work.done
    containers = {
        container: total(operators[one].remaining_seconds for one in ids)
        for container, ids in topology.containers.items()
    }
    stages: dict[int, list[Estimate]] = {}
    for container, left in containers.items():
        stages.setdefault(topology.stage_of[container], []).append(left)
    return WindowProgress(
        operators, containers, total(containers.values()), total(greatest(lefts) for lefts in stages.values())
    )


def work_done(progress: WindowProgress, topology: Topology) -> float:
    """Which part of a window's tuples is processed, 0 to 1.

    Operators are weighed by the time that they take, inputs count for nothing: their records still wait. Who
    has not begun and has never worked, behind one that works, is left out. An operator that others wait for,
    and whose duration is unknown, has done what its counts say, and so have all.
    """
    spent = whole = 0.0
    counted: list[float] = []
    followed: set[int] = set()
    for node in topology.operators:
        operator = progress.operators[node.id]
        before = any(edge.source in followed for edge in topology.streams_into[node.id])
        if before:
            followed.add(node.id)
        if node.kind == "input":
            continue
        left = NOTHING if operator.state == "done" else operator.remaining_seconds
        if operator.state != "done":
            followed.add(node.id)
        if left.value is not None and left.basis is not Basis.LOWER_BOUND and math.isfinite(left.value):
            spent, whole = spent + operator.seconds_spent, whole + operator.seconds_spent + left.value
        elif operator.consumed or not before:
            waiting = operator.input_remaining.value
            elements = math.inf if waiting is None else operator.consumed + operator.active + waiting
            counted.append(operator.consumed / elements if elements > 0 else 0.0)
    weighed = [spent / whole] if whole > 0 else []
    return min(counted + weighed, default=0.0)


# The pass over the operators --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Element:
    """The counts of one operator, corrected: finite and not negative."""

    consumed: float
    active: float
    seconds: float
    produced: Mapping[str, float]
    remaining: Mapping[str, Estimate]
    """AR per port: reported, or an average."""
    fraction: Estimate
    end_seconds: float = 0.0
    """Spent in `end_window`; `seconds` are the rest."""


@dataclass(frozen=True, slots=True)
class _Pass:
    topology: Topology
    running: Mapping[int, RunningOperator]
    history: Mapping[int, History]
    shares: Mapping[StreamEdge, Estimate]
    stage: int
    finished: frozenset[int]
    done: dict[int, OperatorProgress]

    def visit(self, node: OperatorNode, age: float) -> None:
        """Compute the figures of an operator whose parents are done."""
        reported, history = self.running.get(node.id), self.history.get(node.id, History())
        state = self.state(node)
        report = reported or RunningOperator(node.id, state)
        ports = tuple(
            dict.fromkeys((*node.outputs, *node.error_outputs, *report.produced, *report.active_produced))
        )
        if node.kind == "input":
            element = _input_element(report, history, ports, state)
            waiting = Estimate(1.0 if state in {"waiting", "unknown"} else 0.0)
            elements = waiting
        else:
            element = _element(report, history, ports)
            waiting = self.waiting(node, report, element)
            elements = self.elements(node, waiting, element, history)
        average = seconds_per_element(element.seconds, element.consumed, element.active, element.fraction)
        if state == "done":
            waiting = elements = left = NOTHING
            outputs = dict.fromkeys(ports, NOTHING)
        else:
            left = _seconds_left(state, element, average, elements, history)
            outputs = {port: _outputs_left(port, report, element, elements, history) for port in ports}
        spent = element.seconds + element.end_seconds
        if state == "running":
            age = number(age)
            spent, left = spent + age, left.less(age)
        self.done[node.id] = OperatorProgress(
            node.id,
            state,
            element.consumed,
            0.0 if state == "done" else element.active,
            element.produced,
            spent,
            element.fraction,
            average if average.known else _average(history.seconds_per_element),
            waiting,
            elements,
            outputs,
            left,
            self.oldest_in_flight(node, report, ports, state),
        )

    def state(self, node: OperatorNode) -> str:
        """An operator's state, with what follows from the stages."""
        report = self.running.get(node.id)
        if (
            node.stage < self.stage
            or node.container in self.finished
            or (report is not None and report.state == "done")
        ):
            return "done"
        if report is not None:
            return report.state
        return "waiting" if self.stage >= 0 and node.stage > self.stage else "unknown"

    def waiting(self, node: OperatorNode, report: RunningOperator, element: _Element) -> Estimate:
        """F4 over all input ports.

        Delivered tuples are counted; a parent in the same container may have produced more since.
        """
        counted = NOTHING
        streams: list[Estimate] = []
        by_port: dict[str, list[StreamEdge]] = {}
        for edge in self.topology.streams_into[node.id]:
            by_port.setdefault(edge.sink_port, []).append(edge)
        for port, edges in by_port.items():
            finished = all(self.done[edge.source].state == "done" for edge in edges)
            if port in report.queued and finished:
                counted += Estimate(number(report.queued[port]))
                continue
            consumed = number(report.consumed.get(port, 0))
            came = buffered(total(self.produced(edge) for edge in edges), consumed, 0.0)
            queued = number(report.queued.get(port, 0))
            streams.append(came if came.value is None or came.value >= queued else Estimate(queued))
        return counted + (buffered(total(streams), 0.0, element.active) if streams else NOTHING)

    def produced(self, edge: StreamEdge) -> Estimate:
        """P + AP that a stream has carried so far."""
        parent = self.done[edge.source]
        count = parent.produced.get(edge.source_port, 0.0)
        report = self.running.get(edge.source)
        if parent.state == "done" and (
            report is None or report.state != "done"
        ):  # its last report is older than its end, or missing
            return self.shares[edge] * (UNKNOWN if report is None else Estimate(count, Basis.LOWER_BOUND))
        return self.shares[edge] * Estimate(count)

    def elements(
        self, node: OperatorNode, waiting: Estimate, element: _Element, history: History
    ) -> Estimate:
        """F5; if the parents do not report, the operator's average consumption in a window."""
        parents = (self.shares[edge] * self.expected(edge) for edge in self.topology.streams_into[node.id])
        found = input_remaining(waiting, parents)
        if found.basis in {Basis.EXACT, Basis.ESTIMATED} or not history.elements:
            return found
        usual = number(history.elements) - element.consumed - element.active
        return Estimate(max(usual, found.value or 0.0), Basis.ESTIMATED)

    def expected(self, edge: StreamEdge) -> Estimate:
        """The tuples that the source of a stream will still produce at its port."""
        return self.done[edge.source].output_remaining.get(edge.source_port, NOTHING)

    def oldest_in_flight(
        self, node: OperatorNode, report: RunningOperator, ports: Iterable[str], state: str
    ) -> dict[str, float]:
        """The oldest time per output of the records in the operator, or on the way to it."""
        parents = [
            mark
            for edge in self.topology.streams_into[node.id]
            if (mark := self.done[edge.source].oldest_in_flight.get(edge.source_port)) is not None
        ]
        own = report.oldest_in_flight if state != "done" else {}
        found = {}
        for port in ports:
            marks = [*parents, *([own[port]] if port in own and math.isfinite(own[port]) else [])]
            if marks:
                found[port] = min(marks)
        return found


def _element(report: RunningOperator, history: History, ports: Iterable[str]) -> _Element:
    """The counts of an operator that reads from others."""
    consumed, active = min(MOST, sum(map(number, report.consumed.values()))), number(report.active)
    produced, remaining = {}, {}
    for port in ports:
        before, now = number(report.produced.get(port, 0)), number(report.active_produced.get(port, 0))
        produced[port] = before + now
        average = _average(
            before / consumed if consumed else history.outputs_per_element.get(port)
        ) * Estimate(active)
        expected = Estimate(None if average.value is None else average.value - now, average.basis)
        remaining[port] = (_reported(report, port) or expected) if active else NOTHING
    shown = sum(map(number, report.active_produced.values()))
    to_come = total(remaining.values()).value
    several = to_come is not None and shown + to_come >= OUTPUTS_NEEDED * active
    is_known = bool(active) and (bool(report.active_remaining) or several)
    fraction = active_fraction(shown, total(remaining.values())) if is_known else UNKNOWN
    ended = min(number(report.seconds), number(report.end_seconds or 0.0))
    return _Element(consumed, active, number(report.seconds) - ended, produced, remaining, fraction, ended)


def _input_element(report: RunningOperator, history: History, ports: Iterable[str], state: str) -> _Element:
    """An input operator: one element, the window; its work says how far it is."""
    produced = {
        port: number(report.produced.get(port, 0)) + number(report.active_produced.get(port, 0))
        for port in ports
    }
    seconds = number(report.seconds)
    if state != "running":
        return _Element(
            float(state == "done"), 0.0, seconds, produced, dict.fromkeys(ports, NOTHING), UNKNOWN
        )
    done, left = _window_work(report, history)
    remaining = {}
    for port, count in produced.items():
        if left.value is None or (not done and 0 < left.value < math.inf):
            usual = _average(history.outputs_per_element.get(port))
            expected = Estimate(None if usual.value is None else usual.value - count, usual.basis)
        else:
            expected = (
                left if left.infinite or not done else Estimate(count * (left.value / done), Basis.ESTIMATED)
            )
        remaining[port] = _reported(report, port) or expected
    if left.value is not None:
        fraction = active_fraction(done, left) if done or left.value else Estimate(1.0, Basis.ESTIMATED)
    else:
        reported = [port for port in ports if _reported(report, port)]
        fraction = active_fraction(
            sum(produced[port] for port in reported), total(remaining[port] for port in reported)
        )
    return _Element(0.0, 1.0, seconds, produced, remaining, fraction)


def _reported(report: RunningOperator, port: str) -> Estimate | None:
    """AR of a port as the operator reports it; None if it does not."""
    expected = report.active_remaining.get(port)
    if expected is None or math.isnan(expected):
        return None
    return Estimate(math.inf if expected < 0 or expected == math.inf else number(expected), Basis.ESTIMATED)


def _window_work(report: RunningOperator, history: History) -> tuple[float, Estimate]:
    """The work that an input operator has done in this window, and what the window still has to do."""
    if report.work is None:
        return 0.0, UNKNOWN
    consumed, rest = report.work
    before = history.work_before if report.before is None else report.before
    done = max(0.0, number(consumed) - number(before or 0.0))
    left = (
        UNKNOWN
        if rest is None or math.isnan(rest)
        else Estimate(math.inf if rest < 0 else rest, Basis.ESTIMATED)
    )
    if history.work is not None:
        usual = Estimate(number(history.work) - done, Basis.ESTIMATED)
        left = (
            usual
            if left.value is None or usual.value is None
            else min(usual, left, key=lambda one: one.value or 0.0)
        )
    return done, left


def _seconds_left(
    state: str, element: _Element, average: Estimate, elements: Estimate, history: History
) -> Estimate:
    """F7, with the averages of earlier windows where this one is unknown."""
    if any(expected.infinite for expected in element.remaining.values()):
        return Estimate(math.inf, Basis.ESTIMATED)
    left = _left(elements, element.active, element.fraction)
    usual = (
        UNKNOWN
        if history.seconds is None
        else Estimate(number(history.seconds) - element.seconds - element.end_seconds, Basis.ESTIMATED)
    )
    if left.value == 0 and state == "running":
        return usual if usual.known else Estimate(0.0, Basis.LOWER_BOUND)
    ending = (
        NOTHING
        if not history.end_seconds
        else Estimate(number(history.end_seconds) - element.end_seconds, Basis.ESTIMATED)
    )
    if average.known or left == NOTHING:
        return average * left + ending
    whole = Estimate(element.consumed + element.active) + elements
    expected = _average(history.seconds_per_element) * whole
    if whole.value and expected.value is not None:
        return Estimate(expected.value - element.seconds, expected.basis) + ending
    return usual


def _outputs_left(
    port: str, report: RunningOperator, element: _Element, elements: Estimate, history: History
) -> Estimate:
    """F6, with the averages of earlier windows for a port that has produced nothing yet."""
    begun, produced, expected = (
        element.consumed + element.active,
        element.produced[port],
        element.remaining[port],
    )
    usual = history.outputs_per_element.get(port)
    if usual is not None and (
        not begun or (not produced and port not in report.active_remaining and not expected.infinite)
    ):
        whole = Estimate(begun) + elements
        return whole * Estimate(number(usual), Basis.ESTIMATED)
    return output_remaining(elements, outputs_per_element(produced, expected, begun), expected)


def _left(elements: Estimate, active: float, fraction: Estimate) -> Estimate:
    """Elements left, begun ones by what is left of them."""
    if not active:
        return elements
    done = UNSEEN_FRACTION if fraction.value is None else min(1.0, fraction.value)
    return elements + Estimate(active * (1.0 - done), Basis.ESTIMATED)


def _average(value: float | None) -> Estimate:
    return UNKNOWN if value is None else Estimate(number(value), Basis.ESTIMATED)


def number(value: float) -> float:
    """A count or a time as a finite number that is not negative."""
    return float(min(MOST, max(0, value))) if value == value else 0.0  # noqa: PLR0124  not NaN
