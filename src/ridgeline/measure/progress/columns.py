"""How far a window is and how long it will still take: Beam's progress formulas over a whole topology.

Arrays of operators are in the order of the topology, those of output ports in the order of
`ProgressShape.ports`.

The formulas are those of the Apache Beam Fn API's progress report
(https://s.apache.org/beam-fn-api-progress-reporting) with their slips corrected; F1 to F7 number them. C are
consumed tuples, A active ones. P and AP were produced for consumed and for active ones, AR is expected for
active ones. T are the seconds spent:

- F1: f = AP / (AP + AR), both over all outputs;
- F2, seconds per element: T / (C + A f);
- F3, outputs per element, per output: (P + AP + AR) / (C + A);
- F4, buffered: (P + AP) of the streams into the operator - C - A, at least 0;
- F5, input remaining: buffered + the outputs remaining of the streams into the operator;
- F6, output remaining, per output: input remaining x F3 + AR;
- F7, seconds left: F2 x (input remaining + A (1 - f)).

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
- A container begins a window when those that it reads from are done: its report says so of all before it.
- Sums over operators are CPU seconds. The wall time left is, stage after stage, that of the container with
  the most left. A container works with one thread, and those of a stage run side by side as far as there are
  slots.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.answers.progress import ContainerProgressAnswer
from ridgeline.measure.events import RunningOperator
from ridgeline.measure.progress.estimate import Estimate
from ridgeline.measure.progress.estimated import (
    ESTIMATED,
    EXACT,
    LOWER_BOUND,
    Estimates,
    Numbers,
    Places,
    chosen,
    estimates,
    greatest_of,
    less,
    nothing,
    plus,
    sums,
    times,
    totals,
)
from ridgeline.measure.progress.shape import Level, ProgressShape
from ridgeline.measure.topology import Rank

Flags = npt.NDArray[np.bool_]
MOST = 1e18  # counts and seconds above are read as this: no product of them overflows by accident
ROUNDED = 1e-9  # of the tuples that came, what is less is left by rounding
UNSEEN_FRACTION = 0.5
OUTPUTS_NEEDED = 2.0  # of an active tuple: with fewer, the output so far does not show how far it is
WAITING, RUNNING, DONE, UNKNOWN_STATE = range(4)
_ABSENT = -1


class Histories(NamedTuple):
    """`History` of all operators; NaN where nothing is known. `outputs`: per element, by output port."""

    each: Numbers
    outputs: Numbers
    elements: Numbers
    seconds: Numbers
    end_seconds: Numbers
    work: Numbers
    work_before: Numbers


class Reports:
    """The last reports of operators in one window, as arrays.

    `states`: numbers of `names`, -1 without a report. `work`: rows consumed, remaining and consumed before
    the window, NaN where nothing is reported.

    By output port:
    - `present`: in the report
    - `before`, `now`: tuples produced before the active elements, and for them
    - `expected`: tuples for active elements, NaN where nothing is reported
    - `promised`: some are reported, be it NaN

    By input port: tuples `read` and `queued`, NaN where nothing is reported.

    `running`: by operator; those that the plan does not have are left out.
    """

    def __init__(self, shape: ProgressShape, running: Mapping[int, RunningOperator]) -> None:
        places = {one: place for one, place in shape.topology.places.items() if one in running}
        reports, rows = [running[one] for one in places], list(places.values())
        for report in reports:  # ports that nobody reads from are numbered as they are reported
            for port in (*report.produced, *report.active_produced):
                shape.port(report.id, port)
        names = {name: code for code, name in enumerate(("waiting", "running", "done", "unknown"))}
        size = len(shape.inputs)
        self.states = np.full(size, _ABSENT, np.int16)
        self.states[rows] = [names.setdefault(report.state, len(names)) for report in reports]
        self.names = list(names)
        self.amounts = np.zeros((4, size))
        """Rows: seconds, of these in `end_window`, consumed, active."""
        self.amounts[:, rows] = np.array([_amounts(report) for report in reports]).T
        self.amounts[1, shape.inputs] = 0.0
        self.work = np.full((3, size), np.nan)
        self.work[:, rows] = np.array([_work(report) for report in reports]).T
        self.foresees = np.zeros(size, np.bool_)
        """It reports what is expected at any port."""
        self.foresees[rows] = [bool(report.active_remaining) for report in reports]
        outputs, inputs = partial(_by_port, reports, shape.ports), partial(_by_port, reports, shape.readers)
        before, now = outputs(lambda one: one.produced), outputs(lambda one: one.active_produced)
        self.present = ~(np.isnan(before) & np.isnan(now))
        self.before, self.now = np.nan_to_num(before), np.nan_to_num(now)
        self.expected = outputs(lambda one: one.active_remaining, _expected)
        self.promised = ~np.isnan(outputs(lambda one: one.active_remaining, lambda _: 1.0))
        self.oldest = outputs(lambda one: one.oldest_in_flight, lambda at: at if np.isfinite(at) else np.nan)
        self.read = np.nan_to_num(inputs(lambda one: one.consumed))
        self.queued = inputs(lambda one: one.queued)


def number(value: float) -> float:
    """A count or a time as a finite number that is not negative."""
    return float(min(MOST, max(0, value))) if value == value else 0.0  # noqa: PLR0124  not NaN


def _by_port(
    reports: Iterable[RunningOperator],
    ports: Mapping[tuple[int, str], int],
    field: Callable[[RunningOperator], Mapping[str, float]],
    read: Callable[[float], float] = number,
) -> Numbers:
    """The numbers of ports in a field of reports; NaN where nothing is reported."""
    found = np.full(len(ports), np.nan)
    for report in reports:
        for name, value in field(report).items():
            if (port := ports.get((report.id, name))) is not None:
                found[port] = read(value)
    return found


def _expected(value: float) -> float:
    """The tuples that are expected; without an end if they are negative, NaN if nobody knows."""
    if value != value:  # noqa: PLR0124  NaN
        return np.nan
    return np.inf if value < 0 or value == np.inf else number(value)


def _amounts(report: RunningOperator) -> tuple[float, float, float, float]:
    seconds = number(report.seconds)
    consumed = min(MOST, sum(map(number, report.consumed.values())))
    return seconds, min(seconds, number(report.end_seconds or 0.0)), consumed, number(report.active)


def _work(report: RunningOperator) -> tuple[float, float, float]:
    before = np.nan if report.before is None else number(report.before)
    if report.work is None:
        return np.nan, np.nan, before
    consumed, rest = report.work
    left = np.nan if rest is None else np.inf if rest < 0 else float(rest)
    return number(consumed), left, before


def _none(shape: ProgressShape) -> Histories:
    size, ports = len(shape.inputs), len(shape.owners)
    return Histories(*(np.full(ports if name == "outputs" else size, np.nan) for name in Histories._fields))


class _Elements(NamedTuple):
    """The counts of operators and output ports. `fraction`: F1, NaN if it is unknown."""

    consumed: Numbers
    active: Numbers
    fraction: Numbers
    remaining: Estimates


class WindowProgress:
    """The progress of a window: by operator, by output port, by container.

    It is found in one pass over the levels: what an operator still has to do depends on those that it reads
    from.

    Args:
        shape: Of the plan.
        reports: What operators said last.
        history: Of the ports that the shape has now.
        shares: Of the streams.
        ages: By container, how many seconds ago it reported: its running operator is assumed to have worked
            since.
        finished: Containers that are known to be done; their last heartbeat is ignored.
    """

    def __init__(
        self,
        shape: ProgressShape,
        reports: Reports,
        history: Histories | None,
        shares: Estimates,
        ages: Mapping[int, float],
        finished: Collection[int],
    ) -> None:
        size, ports = len(shape.inputs), len(shape.owners)
        self.shape, self.reports, self._shares = shape, reports, shares
        self._history = history or _none(shape)
        self.owners = np.array(shape.owners, np.intp)
        """Of output ports, the places of operators."""
        self.present = reports.present | np.array(shape.always, np.bool_)
        self.states = self._state(finished)
        """Numbers of the reports' `names`."""
        self.produced = np.where(self.present, reports.before + reports.now, 0.0)
        self.buffered, self.input_remaining = nothing(size), nothing(size)
        self.output_remaining, self.oldest = nothing(ports), np.full(ports, np.nan)
        """Of the records in an operator and before it, NaN for none: the tentative watermark of Beam."""
        self._before, self._followed = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        """An operator before it still works, and is no input; the same of it or before it."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            self.counts = self._counted()
            self._average = self._seconds_per_element()
            self._delivered = self._sent()
            depths = shape.depths[self.owners]
            for depth, level in enumerate(shape.levels):
                self._emit(np.flatnonzero(depths == depth), self._read(level))
            self._sum_up(ages)

    @property
    def _done(self) -> Flags:
        return self.states == DONE

    @property
    def average(self) -> Estimates:
        """Seconds per element, by the averages of earlier windows where this one shows none."""
        return chosen(self._average.known, self._average, _averages(self._history.each))

    @property
    def cpu_seconds(self) -> Estimate:
        """Seconds left, as a sum over operators."""
        return _sum(self.by_container)

    @property
    def wall_seconds(self) -> Estimate:
        """Seconds left, stage after stage."""
        _, stages = np.unique(self.shape.stage_of_containers, return_inverse=True)
        return _sum(greatest_of(stages, int(stages.max(initial=-1)) + 1, self.by_container))

    def _state(self, finished: Collection[int]) -> Places:
        """The states of operators, with what follows from reports of containers that read from theirs."""
        shape, reported = self.shape, self.reports.states
        there, topology = reported != _ABSENT, shape.topology
        begun = (
            np.bincount(shape.containers[there & (reported != WAITING)], minlength=len(topology.containers))
            > 0
        )
        above, below = topology.ranks_of_containers
        over = _any_beyond(begun, below) | np.array(
            [one in finished for one in topology.containers], np.bool_
        )
        done = over[shape.containers] | (reported == DONE)
        silent = np.where(_any_beyond(begun & ~over, above)[shape.containers], WAITING, UNKNOWN_STATE)
        return np.where(done, DONE, np.where(there, reported, silent))

    # What operators have reported ---------------------------------------------------------------------------

    def _counted(self) -> _Elements:
        """The counts of all operators."""
        readers, inputs, own = self._counted_of_readers(), self._counted_of_inputs(), self.shape.inputs
        return _Elements(
            np.where(own, inputs.consumed, readers.consumed),
            np.where(own, inputs.active, readers.active),
            np.where(own, inputs.fraction, readers.fraction),
            chosen(own[self.owners], inputs.remaining, readers.remaining),
        )

    def _counted_of_readers(self) -> _Elements:
        """The counts of operators that read from others."""
        reports, owners = self.reports, self.owners
        consumed, active = reports.amounts[2:]
        read, begun = consumed[owners], active[owners]
        usual = _averages(np.where(read > 0, reports.before / read, self._history.outputs))
        average = times(usual, estimates(begun))
        expected = estimates(average.value - reports.now, average.rank)
        remaining = self._unless_reported(expected)
        remaining = chosen((begun > 0) & self.present, remaining, nothing(len(owners)))
        shown = self._of_ports(reports.now)
        there = self.present
        to_come = totals(owners[there], len(consumed), remaining.at(there))
        several = to_come.known & (shown + to_come.value >= OUTPUTS_NEEDED * active)
        known = (active > 0) & (reports.foresees | several)
        fraction = np.where(known, _fraction(shown, to_come.value), np.nan)
        return _Elements(consumed, active, fraction, remaining)

    def _counted_of_inputs(self) -> _Elements:
        """Inputs: one element, the window; their work says how far it is."""
        running, owners, size = self.states == RUNNING, self.owners, len(self.states)
        done, left = self._work()
        done_of, left_of, count = done[owners], left[owners], self.produced
        usual = _averages(self._history.outputs).value - count
        whole = np.where(np.isinf(left_of) | (done_of == 0), left_of, count * (left_of / done_of))
        guessed = np.isnan(left_of) | ((done_of == 0) & (left_of > 0) & (left_of < np.inf))
        expected = estimates(np.where(guessed, usual, whole), ESTIMATED)
        remaining = self._unless_reported(expected)
        remaining = chosen(running[owners] & self.present, remaining, nothing(len(owners)))
        reported = ~np.isnan(self.reports.expected) & self.present
        shown = sums(owners[reported], size, count[reported])
        to_come = totals(owners[reported], size, remaining.at(reported)).value
        by_work = np.where((done == 0) & (left == 0), 1.0, _fraction(done, left))
        fraction = np.where(np.isnan(left), _fraction(shown, to_come), by_work)
        consumed = np.where(self._done, 1.0, 0.0)
        return _Elements(
            consumed, np.where(running, 1.0, 0.0), np.where(running, fraction, np.nan), remaining
        )

    def _work(self) -> tuple[Numbers, Numbers]:
        """The work that inputs have done in this window, and what it still has to do; NaN: unknown."""
        consumed, rest, before = self.reports.work
        history = self._history
        before = np.nan_to_num(np.where(np.isnan(before), _within(history.work_before), before))
        known = ~np.isnan(consumed)
        done = np.where(known, np.maximum(0.0, consumed - before), 0.0)
        usual = np.maximum(0.0, _within(history.work) - done)
        return done, np.where(known, np.fmin(usual, rest), np.nan)

    def _unless_reported(self, expected: Estimates) -> Estimates:
        """The tuples expected at output ports for active elements: as reported, else these."""
        reported = self.reports.expected
        return chosen(np.isnan(reported), expected, estimates(reported, ESTIMATED))

    def _of_ports(self, values: Numbers) -> Numbers:
        """Sums over each operator's output ports."""
        return sums(self.owners, len(self.states), values)

    def _seconds_per_element(self) -> Estimates:
        """F2."""
        found = self.counts
        unseen = np.where(found.consumed > 0, UNSEEN_FRACTION, 0.0)
        processed = found.consumed + found.active * np.where(np.isnan(found.fraction), unseen, found.fraction)
        return estimates(np.where(processed > 0, self._seconds / processed, np.nan), ESTIMATED)

    @property
    def _seconds(self) -> Numbers:
        """Seconds spent, without those in `end_window`."""
        return self.reports.amounts[0] - self.reports.amounts[1]

    def _sent(self) -> Estimates:
        """P + AP at each output port, so far. Of one that is done, the last report may be older than that."""
        there = (self.reports.states != _ABSENT)[self.owners]
        stale = (self._done & (self.reports.states != DONE))[self.owners]
        value = np.where(stale & ~there, np.nan, self.produced)
        return estimates(value, np.where(stale, LOWER_BOUND, EXACT).astype(np.int8))

    # What is left, level after level ------------------------------------------------------------------------

    def _sum_up(self, ages: Mapping[int, float]) -> None:
        """The times, of operators and of all. Who is done has nothing before it."""
        shape, done, found = self.shape, self._done, self.counts
        none, containers = nothing(len(done)), len(shape.stage_of_containers)
        left = chosen(done, none, self._seconds_left())
        ages_of = np.zeros(containers)
        if ages:
            ages_of[:] = [number(ages.get(one, 0.0)) for one in shape.topology.containers]
        age = np.where(self.states == RUNNING, ages_of[shape.containers], 0.0)
        self.counts = found._replace(active=np.where(done, 0.0, found.active))
        self.spent, self.remaining_seconds = self.reports.amounts[0] + age, less(left, age)
        self.buffered = chosen(done, none, self.buffered)
        self.input_remaining = chosen(done, none, self.input_remaining)
        self.by_container = totals(shape.containers, containers, self.remaining_seconds)

    def _read(self, level: Level) -> Numbers:
        """Find the elements that operators have not begun or will get, and the oldest times before them.

        The times are by operator, NaN for none.
        """
        shape, operators, size = self.shape, level.operators, len(level.operators)
        oldest = np.full(len(self.states), np.nan)
        if len(level.readers):
            owners = self.owners[level.sources]
            shares, reads = self._shares.at(level.streams), level.operator_of[level.reader_of]
            sent = times(self._delivered.at(level.sources), shares)
            waiting = self._buffered(
                level, totals(level.reader_of, len(level.readers), sent), self._done[owners]
            )
            both = waiting.followed_by(times(self.output_remaining.at(level.sources), shares))
            found = totals(np.concatenate([np.arange(size), reads]), size, both)
            self.buffered.put(operators, waiting)
            self.input_remaining.put(operators, self._at_least_usual(operators, found))
            self._before[operators[reads[self._followed[owners]]]] = True
            times_of = self.oldest[level.sources]
            known = ~np.isnan(times_of)
            least = np.full(size, np.inf)
            np.minimum.at(least, reads[known], times_of[known])
            oldest[operators] = np.where(np.isinf(least), np.nan, least)
        inputs = operators[shape.inputs[operators]]
        begins = np.isin(self.states[inputs], (WAITING, UNKNOWN_STATE)).astype(np.float64)
        self.buffered.put(inputs, estimates(begins))
        self.input_remaining.put(inputs, estimates(begins))
        works = ~self._done[operators] & ~shape.inputs[operators]
        self._followed[operators] = self._before[operators] | works
        return oldest

    def _buffered(self, level: Level, delivered: Estimates, finished: Flags) -> Estimates:
        """F4 over the input ports of each operator. `finished`: of each stream, if its source is done."""
        size, reports = len(level.operators), self.reports
        under_way = np.zeros(len(level.readers), np.bool_)
        under_way[level.reader_of[~finished]] = True
        queued = reports.queued[level.readers]
        counted = ~np.isnan(queued) & ~under_way
        queued = np.nan_to_num(queued)
        exactly = sums(level.operator_of[counted], size, queued[counted])
        came = _rest(delivered, reports.read[level.readers])
        came = chosen(came.known & (came.value < queued), estimates(queued), came)
        others = level.operator_of[~counted]
        streams = totals(others, size, came.at(~counted))
        several = np.bincount(others, minlength=size) > 0
        active = np.where(several, self.counts.active[level.operators], 0.0)
        return plus(estimates(exactly), _rest(streams, active))

    def _at_least_usual(self, operators: Places, found: Estimates) -> Estimates:
        """F5; if those before do not report, what operators usually consume in a window."""
        usual = _within(self._history.elements[operators])
        vague = (found.rank > ESTIMATED) & (usual > 0)
        rest = usual - self.counts.consumed[operators] - self.counts.active[operators]
        return chosen(vague, estimates(np.fmax(rest, found.value), ESTIMATED), found)

    def _emit(self, ports: Places, oldest: Numbers) -> None:
        """F6 of these output ports. `oldest`: by operator, the oldest times that come to it."""
        owners, found, history = self.owners[ports], self.counts, self._history
        begun = found.consumed[owners] + found.active[owners]
        elements, remaining = self.input_remaining.at(owners), found.remaining.at(ports)
        produced, usual = self.produced[ports], _averages(history.outputs[ports])
        unseen = (produced == 0) & ~self.reports.promised[ports] & ~remaining.infinite
        whole = plus(estimates(begun), elements)
        seen = plus(estimates(produced, ESTIMATED), remaining)
        each = estimates(np.where(begun > 0, seen.value / begun, np.nan), seen.rank)
        left = plus(times(elements, each), remaining)
        left = chosen(usual.known & ((begun == 0) | unseen), times(whole, usual), left)
        over = self._done[owners]
        none = over | ~self.present[ports]
        self.output_remaining.put(ports, chosen(none, nothing(len(ports)), left))
        own = np.fmin(oldest[owners], np.where(over, np.nan, self.reports.oldest[ports]))
        self.oldest[ports] = np.where(self.present[ports], own, np.nan)

    def _seconds_left(self) -> Estimates:
        """F7, with the averages of earlier windows where this one is unknown."""
        found, history, seconds, ended = self.counts, self._history, self._seconds, self.reports.amounts[1]
        size = len(seconds)
        part = np.where(np.isnan(found.fraction), UNSEEN_FRACTION, np.minimum(1.0, found.fraction))
        begun = estimates(found.active * (1.0 - part), ESTIMATED)
        left = chosen(found.active > 0, plus(self.input_remaining, begun), self.input_remaining)
        usual = estimates(_within(history.seconds) - seconds - ended, ESTIMATED)
        end = _within(history.end_seconds)
        ending = chosen(end > 0, estimates(end - ended, ESTIMATED), nothing(size))
        whole = plus(estimates(found.consumed + found.active), self.input_remaining)
        expected = times(_averages(history.each), whole)
        by_history = plus(estimates(expected.value - seconds, expected.rank), ending)
        result = chosen(expected.known & whole.known & (whole.value != 0), by_history, usual)
        measured = self._average.known | ((left.value == 0) & (left.rank == EXACT))
        result = chosen(measured, plus(times(self._average, left), ending), result)
        at_end = (left.value == 0) & (self.states == RUNNING)
        least = Estimates(np.zeros(size), np.full(size, LOWER_BOUND, np.int8))
        result = chosen(at_end, chosen(usual.known, usual, least), result)
        endless = self._of_ports(found.remaining.infinite.astype(np.float64)) > 0
        return chosen(endless, estimates(np.full(size, np.inf), ESTIMATED), result)

    @property
    def fraction_done(self) -> float:
        """Which part of a window's tuples is processed, 0 to 1.

        Operators are weighed by the time that they take, inputs count for nothing: their records still wait.
        Who has not begun and has never worked, behind one that works, is left out. An operator that others
        wait for, and whose duration is unknown, has done what its counts say, and so have all.
        """
        left, rest = self.remaining_seconds, self.input_remaining
        reads = ~self.shape.inputs
        weighed = reads & np.isfinite(left.value) & (left.rank != LOWER_BOUND)
        took = float(self.spent[weighed].sum())
        whole = took + float(left.value[weighed].sum())
        consumed = self.counts.consumed
        counted = reads & ~weighed & ((consumed > 0) | ~self._before)
        elements = np.where(rest.known, consumed + self.counts.active + rest.value, np.inf)[counted]
        parts = np.divide(consumed[counted], elements, out=np.zeros(len(elements)), where=elements > 0)
        return min([*parts.tolist(), *([took / whole] if whole > 0 else [])], default=0.0)


def _any_beyond(begun: Flags, ranks: Sequence[Rank]) -> Flags:
    """Of each container, whether one of these is before it, or behind it, as the ranks go."""
    found = np.zeros(len(begun), np.bool_)
    for rank in ranks:
        found[rank.rows] = rank.reduced(np.logical_or, begun | found)
    return found


def _within(values: Numbers) -> Numbers:
    """Counts or times within their limits, as `number`; NaN stays."""
    return np.clip(values, 0.0, MOST)


def _averages(values: Numbers) -> Estimates:
    return estimates(_within(values), ESTIMATED)


def _rest(delivered: Estimates, begun: Numbers) -> Estimates:
    """F4: what was delivered and is not begun; what is left by rounding alone is nothing."""
    rest = delivered.value - begun
    return estimates(np.where(rest < ROUNDED * delivered.value, 0.0, rest), delivered.rank)


def _fraction(done: Numbers, left: Numbers) -> Numbers:
    """F1, NaN if it is unknown."""
    return np.where(done + left == 0, np.nan, done / (done + left))


def _sum(given: Estimates) -> Estimate:
    """The sum of all of them."""
    return totals(np.zeros(len(given.value), np.intp), 1, given).one(0)


class Doing(NamedTuple):
    """The states of operators by id, and the containers that work and have long said nothing."""

    states: Mapping[int, str]
    silent: frozenset[int]

    @classmethod
    def of(cls, states: Mapping[int, str], containers: Iterable[ContainerProgressAnswer]) -> Doing:
        """As these rows say."""
        return cls(states, frozenset(row["id"] for row in containers if row["silent"]))
