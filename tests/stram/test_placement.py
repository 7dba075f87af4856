"""How many slots there are, what lives in them, and where they should run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.api.errors import RidgelineError
from ridgeline.plan.planner import plan_application
from ridgeline.stram.placement import Offer, Wish, count_slots, place, wishes
from support.stram.plans import Counter, Source, plan


def near(*localities, partitions=2):
    """A source and a step in `partitions` for each locality of the stream between them."""
    app = Application("app")
    for number, locality in enumerate(localities):
        source = app.add_operator(f"source{number}", Source())
        step = app.add_operator(f"step{number}", Counter(), partitions=partitions)
        app.add_stream(f"items{number}", source.out, step.data, locality=locality)
    return plan_application(app)


def test_as_many_slots_as_containers_or_as_cores_are_left():
    assert count_slots(containers=4, cores=16) == 4
    assert count_slots(containers=4, cores=3) == 2
    assert count_slots(containers=4, cores=8, held=5) == 2


def test_what_local_spark_was_given_for_slots_leaves_its_own_cores_free():
    assert count_slots(containers=4, cores=4, extra=2) == 2
    assert count_slots(containers=1, cores=3, extra=1) == 1
    assert count_slots(containers=4, cores=4, extra=2, held=2) == 1


def test_spark_sources_leave_cores_to_the_tasks_that_read_for_them():
    assert count_slots(containers=8, cores=8, fed=2) == 6
    assert count_slots(containers=8, cores=8, fed=8) == 4
    assert count_slots(containers=4, cores=2, fed=2) == 1
    assert count_slots(containers=4, cores=4, extra=2, fed=2) == 2


def test_too_few_cores_say_how_many_are_needed():
    with pytest.raises(RidgelineError, match=r"slots need 2 cores .*; Spark has 1; give Spark more cores"):
        count_slots(containers=4, cores=1)
    with pytest.raises(RidgelineError, match=r"slots need 4 cores .* 2 for slots of other applications"):
        count_slots(containers=1, cores=3, held=2)


def test_a_partition_of_successive_stages_lives_in_one_slot():
    two_stages = plan(inputs=2, partitions=2)
    first, second = two_stages.execution.stages
    assert [len(first.containers), len(second.containers)] == [2, 4]
    assert place(two_stages, 2) == ((0, 2, 3), (1, 4, 5))


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(1, 12))
def test_every_container_has_one_slot_and_slots_have_an_even_number(inputs, partitions, cores):
    found = plan(inputs=inputs, partitions=partitions)
    containers = [container.id for container in found.execution.containers]
    placed = place(found, min(cores, len(containers)))
    assert sorted(container for slot in placed for container in slot) == containers
    assert max(map(len, placed)) - min(map(len, placed)) <= 1


def test_containers_of_a_node_local_stream_are_not_split_where_slots_are_few():
    found = near("NODE_LOCAL", "NODE_LOCAL")
    groups = ({0, 2, 3}, {1, 4, 5})
    assert [set(hosted) for hosted in place(found, 2)] == [*groups]
    three = place(found, 3)
    assert all(three)
    assert sorted(container for hosted in three for container in hosted) == list(range(6))


def test_slots_are_spread_over_hosts_and_neighbours_share_one():
    found = plan(inputs=2, partitions=2)
    offers = {"alpha": Offer(4), "beta": Offer(4)}
    hosts = [wish.hosts for _, wish in sorted(wishes(found, place(found, 6), offers).items())]
    assert hosts == [("alpha",)] * 3 + [("beta",)] * 3
    assert not wishes(found, place(found, 6), {"alpha": Offer(8)})


def test_slots_of_a_node_local_stream_get_one_host():
    found = near("NODE_LOCAL", "NODE_LOCAL", None)
    placement = place(found, 9)
    wanted = wishes(found, placement, {"alpha": Offer(5), "beta": Offer(5)})
    home = {container: slot for slot, hosted in enumerate(placement) for container in hosted}
    first, second = ({wanted[home[container]] for container in group} for group in ((0, 3, 4), (1, 5, 6)))
    assert sorted([*first, *second], key=str) == [
        Wish(("alpha",), binding=True),
        Wish(("beta",), binding=True),
    ]
    assert not any(wanted[home[container]].binding for container in (2, 7, 8))


def test_slots_of_a_rack_local_stream_get_one_rack():
    found = near("RACK_LOCAL")
    offers = {"a1": Offer(1, "a"), "a2": Offer(1, "a"), "b1": Offer(2, "b"), "b2": Offer(2, "b")}
    wanted = wishes(found, place(found, 3), offers)
    assert {frozenset(wish.hosts) for wish in wanted.values()} == {frozenset({"b1", "b2"})}
    assert all(wish.binding for wish in wanted.values())
    assert {wish.hosts[0] for wish in wanted.values()} == {"b1", "b2"}


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([None, "NODE_LOCAL", "RACK_LOCAL"]), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 12),
    st.dictionaries(st.sampled_from("abcd"), st.builds(Offer, st.integers(0, 6), st.sampled_from("xy"))),
)
def test_every_slot_of_every_plan_gets_a_place(localities, partitions, slots, offers):
    found = near(*localities, partitions=partitions)
    containers = [container.id for container in found.execution.containers]
    placement = place(found, min(slots, len(containers)))
    assert all(placement)
    assert sorted(container for hosted in placement for container in hosted) == containers
    wanted = wishes(found, placement, offers)
    assert sorted(wanted) == (list(range(len(placement))) if len(offers) > 1 else [])
    assert all(set(wish.hosts) <= offers.keys() for wish in wanted.values())
