"""The policy that looks at the critical path: partitions for what bounds latency or throughput."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field, PrivateAttr

from ridgeline.measure.deciding.capacity import all_busy, busy_share, partitions_for, predicted_busy
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.policies.answers import HELPED, REFUSED, Decision, Expectation
from ridgeline.policies.model import MOSTLY, behind, predicted_latency, reachable_gain, wanted_load
from ridgeline.policies.steering import Seconds, SteeringPolicy

_MORE = 1.05  # by less than this the load is said to stay
_LESS = 0.9  # of what an operator is busy; what leaves more is no gain
_FULL = 0.9  # of all processors; more cannot be had
_FEW = 3  # windows; of fewer nothing is said about what was lately
_OTHER_LOAD = 0.25  # what was learned at one load says nothing beyond this share of it


@dataclass(frozen=True, slots=True)
class _Try:
    """A change for latency whose outcome is awaited.

    Deciders compare with the expectation alone. This policy asks first if the load is alike: under a load
    that rises, each change would else be taken back and made again.
    """

    operator: str
    before: int
    after: int
    latency: float
    gain: float
    load: float


class CriticalPathPolicy(SteeringPolicy):
    """Gives partitions to the operator that bounds latency or throughput; what has slack gives one back.

    Too little throughput comes first: all operators that are busier than `busy` get as many partitions as
    bring them to `target`, in one change. An operator that cannot have enough limits all others with it. Then
    latency: the operator with the most on the critical path. The application must be expected to gain at
    least the share `worth_it` for each slot more. A change that did not bring a quarter of that is
    undone, if the load is alike. It is tried again only once the load has changed by a quarter. Partitions
    are taken back one at a time, never from what is busy or behind. Windows may get slower by less than half
    of what a slot must bring. The operator must have had room for all of `patience`. `divides`: inputs that
    may have more partitions; others never get any. `keep`: operators that stay as they are.
    """

    busy: float = Field(default=0.8, gt=0, le=1)
    target: float = Field(default=0.6, gt=0, le=1)
    idle: float = Field(default=0.4, ge=0, le=1)
    worth_it: float = Field(default=0.1, gt=0, le=1)
    worth_seconds: Seconds = 0.005
    catch_up: Seconds = 300.0
    patience: Seconds = 300.0
    divides: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    _tried: _Try | None = PrivateAttr(default=None)
    _needed: dict[str, tuple[int, float]] = PrivateAttr(default_factory=dict)
    _needed_at: dict[str, float] = PrivateAttr(default_factory=dict)
    _asked: dict[tuple[str, int], tuple[float, float]] = PrivateAttr(default_factory=dict)
    """The last change, as `_unhelpful` has it if it is refused."""

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """At most one decision: what came of the last, throughput, latency, or what can be given back."""
        settled = self.ready(figures)
        if settled is None:
            return None
        self._remember_needed(settled)
        return (
            self._judged(settled)
            or self._for_throughput(settled)
            or self._for_latency(settled)
            or self._back(settled)
        )

    def told(self, decision: Decision, state: str) -> None:
        """Keep a change that has helped, and remember at which load one was refused."""
        if state in {HELPED, REFUSED}:
            self._tried = None
        if state == REFUSED:
            self._unhelpful |= self._asked

    def limit(self, figures: ApplicationFigures, name: str) -> int:
        """As of others; inputs that are not known to divide, and what `keep` names, stay as they are."""
        operator = figures.operators[name]
        if name in self.keep or (operator.is_input and name not in self.divides):
            return operator.partitions
        return max(super().limit(figures, name), operator.partitions)

    def _remember_needed(self, figures: ApplicationFigures) -> None:
        for name, one in figures.operators.items():
            fewer = max(one.partitions - 1, 1)
            busy = predicted_busy(one, fewer) > self.idle
            if name not in self._needed_at or busy or behind(figures) or self._missed(figures, name, fewer):
                self._needed_at[name] = figures.at

    def _missed(self, figures: ApplicationFigures, name: str, fewer: int) -> bool:
        """Whether windows would notice that an operator has fewer partitions: half of what one is worth."""
        one = figures.operators[name]
        after = predicted_latency(one, fewer)
        if after is None or one.slack_seconds is None:
            return True
        slower = max(after - one.latency.p50_seconds, 0.0)
        return 2 * slower > max(one.slack_seconds, self._worth(figures))

    def _worth(self, figures: ApplicationFigures) -> float:
        """The least gain of one slot more, in seconds of a window: slots have a price."""
        return float(max(self.worth_it * figures.window_latency.p50_seconds, self.worth_seconds))

    def _judged(self, figures: ApplicationFigures) -> Decision | None:
        """Take the last change for latency back if it did not help, and remember that."""
        tried, self._tried = self._tried, None
        latency = figures.window_latency.p50_seconds
        if tried is None or not figures.window_latency.count or tried.operator not in figures.operators:
            return None
        if abs(_load(figures, tried.operator) - tried.load) > _OTHER_LOAD * tried.load:
            return None  # another load: what came of it cannot be said
        if tried.latency - latency >= 0.25 * tried.gain:
            return None
        self._unhelpful[tried.operator, tried.after] = tried.load, figures.at
        if behind(figures) or predicted_busy(figures.operators[tried.operator], tried.before) > self.busy:
            return None
        note = (
            f"{tried.operator}: back to {tried.before} partitions; with {tried.after} the window took "
            f"{latency:.3g} s, {tried.latency:.3g} s before: expected was {tried.gain:.3g} s less"
        )
        return self._change(figures, {tried.operator: tried.before}, note)

    def _full(self, figures: ApplicationFigures) -> bool:
        """Whether all processors are busy: partitions more would only share them."""
        known = [one for one in (self.max_slots, figures.slots) if one is not None]
        return bool(known) and all_busy(figures) > _FULL * min(known)

    def _tight(self, figures: ApplicationFigures, load: float) -> list[OperatorFigures]:
        """The operators that are too busy, over the period and lately: what was in their way may be gone."""
        lately = figures.for_seconds(figures.seconds / 4)
        if lately.windows < _FEW:
            lately = figures
        return [
            one
            for name, one in figures.operators.items()
            if min(busy_share(one), busy_share(lately.operators[name])) * load > self.busy
        ]

    def _for_throughput(self, figures: ApplicationFigures) -> Decision | None:
        """Give all that are too busy what they need, as far as what cannot be divided lets tuples through."""
        if figures.verdict == "settling":
            return None  # what was taken until now says nothing of the load
        load = wanted_load(figures, self.catch_up)
        tight = self._tight(figures, load)
        if not tight or self._full(figures):
            return None
        limited = ""
        for name, one in figures.operators.items():
            can = 1.0 / max(predicted_busy(one, self.limit(figures, name)), 1e-9)
            if can < load:
                load, limited = can, name
        load = max(load, 1.0)
        wanted: dict[str, int] = {}
        for one in tight:
            number = partitions_for(one, load, self.target, self.limit(figures, one.name))
            if (
                busy_share(one) * load > self.busy
                and number > one.partitions
                and predicted_busy(one, number) <= _LESS * busy_share(one)
                and not self._was_unhelpful(figures, one.name, number)
            ):
                wanted[one.name] = number
        if not wanted:
            return None
        parts = ", ".join(
            f"{name} {figures.operators[name].partitions} -> {number}" for name, number in wanted.items()
        )
        busiest = max(wanted, key=lambda name: busy_share(figures.operators[name]))
        operator = figures.operators[busiest]
        expects = _expected(figures, wanted, busiest, load)
        if expects is None:
            return None
        note = f"throughput: {parts} partitions; {busiest} is busy {busy_share(operator):.0%} of the time"
        if load > _MORE:
            note += f", and {load:.2f} times as much is due"
        if limited:
            note += f"; `{limited}` allows no more"
        for name in wanted:
            self._needed[name] = (figures.operators[name].partitions, _load(figures, name) * load)
        return self._change(figures, wanted, note, expects)

    def _for_latency(self, figures: ApplicationFigures) -> Decision | None:
        """Give partitions to the operator on the critical path from which the application gains most."""
        latency = figures.window_latency.p50_seconds
        if not latency or behind(figures):
            return None
        if self._full(figures):
            return None  # no processor is left that another partition could use
        best: tuple[float, str, int, float] | None = None
        for name, one in figures.operators.items():
            if one.critical_path_share < MOSTLY:
                continue
            for number in range(one.partitions + 1, self.limit(figures, name) + 1):
                after = predicted_latency(one, number)
                if after is None or self._was_unhelpful(figures, name, number):
                    break
                gain = reachable_gain(figures, name, one.latency.p50_seconds - after)
                price = self._worth(figures) * (number - one.partitions)
                if gain >= price and (best is None or gain - price > best[3]):
                    best = (gain, name, number, gain - price)
        if best is None:
            return None
        gain, name, number, _ = best
        one = figures.operators[name]
        note = (
            f"latency: {name} {one.partitions} -> {number} partitions; it is on the critical path of "
            f"{one.critical_path_share:.0%} of windows; expects {latency:.3g} -> {latency - gain:.3g} s"
        )
        load = _load(figures, name)
        self._tried = _Try(name, one.partitions, number, latency, gain, load)
        self._needed[name] = (one.partitions, load)
        expects = Expectation("latency_p50_seconds", latency, latency - gain)
        return self._change(figures, {name: number}, note, expects)

    def _back(self, figures: ApplicationFigures) -> Decision | None:
        """Take a partition from an operator that has slack and room, once nothing else is due."""
        if behind(figures) or wanted_load(figures, self.catch_up) > _MORE:
            return None
        if self._changed_at is not None and figures.at - self._changed_at < 2 * self.cooldown:
            return None
        for name, one in figures.operators.items():
            fewer = one.partitions - 1
            if not fewer or one.is_input or name in self.keep or predicted_busy(one, fewer) > self.idle:
                continue
            if figures.at - self._needed_at[name] < self.patience or self._was_unhelpful(
                figures, name, fewer
            ):
                continue
            low, load = self._needed.get(name, (0, 0.0))
            if fewer <= low and _load(figures, name) > 0.75 * load:
                continue  # it was given this partition at such a load
            if not self._missed(figures, name, fewer):
                after = predicted_latency(one, fewer) or 0.0
                slower = max(after - one.latency.p50_seconds, 0.0)
                note = (
                    f"slack: {name} {one.partitions} -> {fewer} partitions; that makes it {slower:.3g} s "
                    f"slower, it has {one.slack_seconds:.3g} s, and is busy {busy_share(one):.0%} of the time"
                )
                busy = Expectation("utilization", busy_share(one), predicted_busy(one, fewer), name)
                return self._change(figures, {name: fewer}, note, busy)
        return None

    def _was_unhelpful(self, figures: ApplicationFigures, name: str, number: int) -> bool:
        return self.was_unhelpful((name, number), _load(figures, name), _OTHER_LOAD)

    def _change(
        self,
        figures: ApplicationFigures,
        wanted: Mapping[str, int],
        note: str,
        *expects: Expectation,
    ) -> Decision | None:
        self._asked = {(name, number): (_load(figures, name), figures.at) for name, number in wanted.items()}
        return self.repartition(figures, wanted, note, expects)


def _expected(
    figures: ApplicationFigures, wanted: Mapping[str, int], busiest: str, load: float
) -> Expectation | None:
    """The expected gain of these partitions: more tuples, or room; None if there is none."""
    operator = figures.operators[busiest]
    if load > _MORE:
        can = min(
            1.0 / max(predicted_busy(one, wanted.get(name, one.partitions)), 1e-9)
            for name, one in figures.operators.items()
        )
        rate = operator.tuples_out_per_second if operator.is_input else operator.tuples_in_per_second
        more = min(load, can)
        return Expectation("tuples_per_second", rate, rate * more, busiest) if more > _MORE else None
    before, after = busy_share(operator), predicted_busy(operator, wanted[busiest], load)
    return Expectation("utilization", before, after, busiest) if after <= _LESS * before else None


def _load(figures: ApplicationFigures, name: str) -> float:
    operator = figures.operators[name]
    return operator.tuples_in_per_second or operator.tuples_out_per_second
