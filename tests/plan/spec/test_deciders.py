"""Policies, listeners and promises in specifications: written, read, and their faults."""

from __future__ import annotations

import pytest

from ridgeline import Application, ValidationError
from ridgeline.operators import ConsoleOutput, RandomEventGenerator
from ridgeline.plan.spec.form import Form
from ridgeline.plan.spec.texts import read_document
from ridgeline.plan.spec.writer import specification_of
from ridgeline.plan.specification import read_specification
from ridgeline.policies import Bounds, CriticalPathPolicy, SkewPolicy, StatsListener
from ridgeline.sla import (
    caught_up_within,
    error_share,
    late_share,
    latency,
    loss,
    record_age,
    throughput,
    window_latency,
)
from support.plan.specifications import write_specification
from support.rows import in_a_row


class MoreWhenLate(StatsListener):
    """A listener with a property."""

    seconds: float = 1.0

    def observe(self, figures):
        return None


def application():
    app = in_a_row(
        Application("decided"),
        dice=RandomEventGenerator(),
        sink=(ConsoleOutput(), {"stats_listeners": [MoreWhenLate(seconds=3)]}),
    )
    app.add_policy(SkewPolicy())
    app.add_policy(CriticalPathPolicy(max_slots=8, cooldown="30s", max_partitions={"sink": 2}))
    app.add_policy(Bounds(operator="sink", figure="latency_p99_seconds", at_most="2s"))
    app.promise(
        latency("sink", p99="2s"),
        window_latency(p50=0.5, over="5m"),
        caught_up_within("10m"),
        error_share("sink", at_most=0.001),
        late_share("sink", at_most=0.5),
        throughput("dice", at_least=100),
        record_age("sink", p99="5s"),
        loss(at_most=0.001, over="30d"),
    )
    return app


@pytest.mark.parametrize("form", [Form.JSON, Form.YAML])
def test_what_is_written_is_read_again(form):
    app = application()
    again = read_specification(read_document(write_specification(app, form), form), "decided")
    assert again.promises == app.promises
    assert [type(one) for one in again.policies] == [SkewPolicy, CriticalPathPolicy, Bounds]
    assert [one.model_dump() for one in again.policies] == [one.model_dump() for one in app.policies]
    (listener,) = again.operators[1].listeners
    assert (type(listener), listener.seconds) == (MoreWhenLate, 3)
    assert specification_of(again) == specification_of(app)


@pytest.mark.parametrize(
    ("section", "given", "fault"),
    [
        ("policies", {"class": "ridgeline.policies.SkewPolicy", "properties": {"ratio": 0}}, "ratio"),
        ("policies", {"class": "ridgeline.policies.Skew"}, "policies.0`: .*has no `Skew`"),
        ("policies", {"class": "ridgeline.operators.ConsoleOutput"}, "has no method `decide`"),
        ("promises", {"kind": "speed"}, "no promise is called 'speed'.*give one of latency"),
        ("promises", {"kind": "latency", "p99": "2s"}, "operator"),
        ("promises", {"kind": "latency", "operator": "sink", "p99": "soon"}, "promises.0`: .*soon"),
        ("promises", {"kind": "throughput", "operator": "sink", "p99": "2s"}, "has no `p99`"),
    ],
)
def test_faults_name_their_place(section, given, fault):
    document = {**specification_of(application()), section: [given]}
    with pytest.raises(ValidationError, match=fault):
        read_specification(document, "decided")


def test_what_has_no_name_cannot_be_written():
    class Local(StatsListener):
        def observe(self, figures):
            return None

    app = Application("local")
    app.add_operator("dice", RandomEventGenerator(), stats_listeners=[Local()])
    with pytest.raises(ValidationError, match=r"dice`: a listener cannot be written: .* `Local` cannot"):
        specification_of(app)
