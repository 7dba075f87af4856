"""Planted: what is no policy, no listener and no promise; and answers that are none."""

from __future__ import annotations

from operators import PaymentInput
from ridgeline import Application
from ridgeline.policies import (
    Answer,
    ApplicationFigures,
    Decision,
    OperatorFigures,
    Policy,
    Repartition,
    SkewPolicy,
    StatsListener,
)
from ridgeline.sla import caught_up_within, latency


class MoreWhenLate(StatsListener):
    """Doubles the partitions of an operator that waits for tuples."""

    most: int = 8

    def observe(self, figures: OperatorFigures) -> Answer | None:
        return Repartition(min(self.most, 2 * figures.partitions)) if figures.queue else None


class Nothing(Policy):
    """Decides on no change."""

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        return None


class Text(Policy):
    """Answers with a text."""

    def decide(self, figures: ApplicationFigures) -> str:  # error: no decision
        return "more"


app = Application("payments")
app.add_policy(Nothing())
app.add_policy(SkewPolicy(ratio=2))
app.add_policy(Nothing)  # error: the class, no instance
app.add_policy(MoreWhenLate())  # error: a listener is no policy
app.promise(latency("source", p99="2s"), caught_up_within("10m"))
app.promise("latency")  # error: text
app.promise(latency)  # error: the function
app.add_operator("source", PaymentInput(3), stats_listeners=[MoreWhenLate()])
app.add_operator("other", PaymentInput(3), stats_listeners=[Nothing()])  # error: a policy is no listener
app.add_operator("third", PaymentInput(3), stats_listeners=MoreWhenLate())  # error: no sequence
