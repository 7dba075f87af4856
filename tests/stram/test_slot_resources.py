"""What slots need of their hosts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.plan.planner import plan_application
from ridgeline.plan.show.notes import find_notes
from ridgeline.stram.placement import place
from ridgeline.stram.slot_resources import NEEDS, Need, needs_of, not_given, place_within
from support.stram.plans import Counter, Source


def needy(partitions=2, **attributes):
    app = Application("app")
    source = app.add_operator("source", Source())
    step = app.add_operator("step", Counter(), partitions=partitions, **attributes)
    app.add_stream("items", source.out, step.data)
    return plan_application(app)


def test_a_slot_needs_the_sum_of_memory_and_gpus_and_the_most_cores_of_its_operators():
    plan = needy(memory_mb=512, vcores=3, gpus=1)
    assert needs_of(plan, ((0,), (1, 2)), NEEDS) == [Need(), Need(1024, 3, 2)]
    assert needs_of(plan, ((0,), (1, 2)), {"gpus"}) == [Need(), Need(0, 1, 2)]
    assert needs_of(plan, ((0, 1, 2), ()), NEEDS) == [Need(1024, 3, 2), Need()]


def test_what_the_cluster_cannot_give_is_named_with_its_operators():
    plan = needy(memory_mb=512, gpus=1)
    assert not_given(plan, {"vcores", "gpus"}) == {"memory_mb": ["step"]}
    assert not_given(plan, NEEDS) == {}


def test_the_plan_says_where_needs_are_met():
    plan = needy(partitions=1, memory_mb=512, vcores=2)
    notes = [note for note in find_notes(plan.logical, plan.physical) if note.where == "step"]
    assert [note.text.split(":")[0] for note in notes] == ["`vcores`", "`memory_mb`"]


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 30))
def test_containers_are_placed_within_the_cores_that_there_are(partitions, vcores, cores):
    plan = needy(partitions=partitions, vcores=vcores)
    slots = min(cores, partitions + 1)
    placement = place_within(plan, slots, cores, NEEDS)
    used = sum(need.vcores for need in needs_of(plan, placement, NEEDS))
    assert used <= cores or len(placement) == 1
    if len(placement) < slots:
        more = needs_of(plan, place(plan, len(placement) + 1), NEEDS)
        assert sum(need.vcores for need in more) > cores
