"""How many slots there are, what lives in them, and where they should run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import AffinityRule, Application
from ridgeline.api.errors import RidgelineError
from ridgeline.plan.planner import plan_application
from ridgeline.stram.placement import (
    HostCapacity,
    HostPreference,
    broken_rules,
    count_slots,
    host_preferences,
    place,
)
from support.depth import deep
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


def test_partitions_of_one_number_live_in_one_slot():
    two_stages = plan(inputs=2, partitions=2)
    first, second = two_stages.execution.stages
    assert [len(first), len(second)] == [2, 4]
    assert place(two_stages, 2) == ((0, 2, 4), (1, 3, 5))


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
    capacities = {"alpha": HostCapacity(4), "beta": HostCapacity(4)}
    hosts = [
        preference.hosts
        for _, preference in sorted(host_preferences(found, place(found, 6), capacities).items())
    ]
    assert hosts == [("alpha",)] * 3 + [("beta",)] * 3
    assert not host_preferences(found, place(found, 6), {"alpha": HostCapacity(8)})


def test_slots_of_a_node_local_stream_get_one_host():
    found = near("NODE_LOCAL", "NODE_LOCAL", None)
    placement = place(found, 9)
    wanted = host_preferences(found, placement, {"alpha": HostCapacity(5), "beta": HostCapacity(5)})
    home = {container: slot for slot, hosted in enumerate(placement) for container in hosted}
    first, second = ({wanted[home[container]] for container in group} for group in ((0, 3, 4), (1, 5, 6)))
    assert sorted([*first, *second], key=str) == [
        HostPreference(("alpha",), binding=True),
        HostPreference(("beta",), binding=True),
    ]
    assert not any(wanted[home[container]].binding for container in (2, 7, 8))


def test_slots_of_a_rack_local_stream_get_one_rack():
    found = near("RACK_LOCAL")
    capacities = {
        "a1": HostCapacity(1, "a"),
        "a2": HostCapacity(1, "a"),
        "b1": HostCapacity(2, "b"),
        "b2": HostCapacity(2, "b"),
    }
    wanted = host_preferences(found, place(found, 3), capacities)
    assert {frozenset(preference.hosts) for preference in wanted.values()} == {frozenset({"b1", "b2"})}
    assert all(preference.binding for preference in wanted.values())
    assert {preference.hosts[0] for preference in wanted.values()} == {"b1", "b2"}


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([None, "NODE_LOCAL", "RACK_LOCAL"]), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 12),
    st.dictionaries(
        st.sampled_from("abcd"), st.builds(HostCapacity, st.integers(0, 6), st.sampled_from("xy"))
    ),
)
def test_every_slot_of_every_plan_gets_a_place(localities, partitions, slots, capacities):
    found = near(*localities, partitions=partitions)
    containers = [container.id for container in found.execution.containers]
    placement = place(found, min(slots, len(containers)))
    assert all(placement)
    assert sorted(container for hosted in placement for container in hosted) == containers
    wanted = host_preferences(found, placement, capacities)
    assert sorted(wanted) == (list(range(len(placement))) if len(capacities) > 1 else [])
    assert all(set(preference.hosts) <= capacities.keys() for preference in wanted.values())


def ruled(*rules, partitions=2):
    """Two sources, each with a step in `partitions`, and rules."""
    app = Application("app")
    for number in range(2):
        source = app.add_operator(f"source{number}", Source())
        step = app.add_operator(f"step{number}", Counter(), partitions=partitions)
        app.add_stream(f"items{number}", source.out, step.data)
    for rule in rules:
        app.add_affinity(rule)
    return plan_application(app)


def hosts_of(found, placement, preferences):
    """The host of each partition, by operator."""
    home = {box: preferences[slot].hosts[0] for slot, hosted in enumerate(placement) for box in hosted}
    of_operator = {op: home[box.id] for box in found.execution.containers for op in box.operators}
    return {
        name: [of_operator[op.id] for op in found.physical.operators if op.name == name and not op.unifier]
        for name in ("source0", "step0", "source1", "step1")
    }


HOSTS = {name: HostCapacity(4, rack) for name, rack in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2"))}


@pytest.mark.guide("002", "Affinity Rules")
def test_rules_choose_hosts_and_racks():
    together = AffinityRule("AFFINITY", ["step0", "step1"])
    apart = AffinityRule("ANTI_AFFINITY", ["source0", "step0"])
    spread = AffinityRule("ANTI_AFFINITY", ["step1", "step1"])
    racks = AffinityRule("ANTI_AFFINITY", ["source0", "source1"], locality="RACK_LOCAL")
    there = AffinityRule("AFFINITY", ["step0", "source1"], hosts=["b", "c"])
    elsewhere = AffinityRule("ANTI_AFFINITY", ["source0"], hosts=["1"], locality="RACK_LOCAL")
    for rules, slots in (
        ((together, apart), 4),
        ((spread, apart), 4),
        ((racks, spread), 4),
        ((apart,), 2),
        ((there, elsewhere), 4),
        ((there, spread, elsewhere), 6),
    ):
        found = ruled(*rules)
        placement = place(found, slots)
        preferences = host_preferences(found, placement, HOSTS)
        at = hosts_of(found, placement, preferences)
        if together in rules:
            assert len({*at["step0"], *at["step1"]}) == 1
        if apart in rules:
            assert not {*at["source0"]} & {*at["step0"]}
        if spread in rules:
            assert len(set(at["step1"])) == 2
        if racks in rules:
            assert {HOSTS[host].rack for host in (*at["source0"], *at["source1"])} == {"1", "2"}
        if there in rules:
            assert {*at["step0"], *at["source1"]} <= {"b", "c"}
            assert HOSTS[at["source0"][0]].rack == "2"
        assert not broken_rules(found, placement, preferences, HOSTS)


def test_rules_that_hosts_or_slots_are_too_few_for_are_told_and_relaxed_ones_go_first():
    spread = AffinityRule("ANTI_AFFINITY", ["step0", "step0"])
    wide = AffinityRule("ANTI_AFFINITY", ["source0", "source1", "step0", "step1"], relax=True)
    found = ruled(spread, wide, partitions=3)
    for slots, hosts, names in ((8, 4, ["affinity 2"]), (3, 4, ["affinity 2"]), (2, 4, None), (8, 2, None)):
        capacities = dict(list(HOSTS.items())[:hosts])
        placement = place(found, slots)
        rules = broken_rules(found, placement, host_preferences(found, placement, capacities), capacities)
        assert [rule.name for rule in rules] == (names or ["affinity 1", "affinity 2"])
        assert sorted(box for hosted in placement for box in hosted) == list(range(8))
        assert all(placement)
    assert [rule.name for rule in broken_rules(found, place(found, 8), {}, {})] == [
        "affinity 1",
        "affinity 2",
    ]


@settings(deadline=None, max_examples=deep(25))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["AFFINITY", "ANTI_AFFINITY"]),
            st.lists(st.sampled_from(["source0", "step0", "source1", "step1"]), min_size=2, max_size=3),
        ),
        max_size=3,
    ),
    st.integers(1, 8),
)
def test_every_rule_is_kept_or_told(rules, slots):
    try:
        found = ruled(*(AffinityRule(kind, names, relax=True) for kind, names in rules))
    except RidgelineError:
        return
    slots = min(slots, len(found.execution.containers))
    placement = place(found, slots)
    assert sorted(box for hosted in placement for box in hosted) == list(
        range(len(found.execution.containers))
    )
    assert len(placement) == slots
    assert all(placement)
    preferences = host_preferences(found, placement, HOSTS)
    at = hosts_of(found, placement, preferences)
    told = [rule.name for rule in broken_rules(found, placement, preferences, HOSTS)]
    for rule in found.logical.affinity:
        hosts = [{*at[name]} for name in dict.fromkeys(rule.operators)]
        if not rule.apart:
            assert len(set().union(*hosts)) == 1
        elif rule.name not in told:
            assert sum(map(len, hosts)) == len(set().union(*hosts))
            assert all(len(set(at[name])) == len(at[name]) for name in rule.spread)


def test_a_host_that_is_not_there_is_told_and_the_slot_runs_anywhere():
    found = ruled(
        AffinityRule("AFFINITY", ["source0"], hosts=["z"]), AffinityRule("AFFINITY", ["step0"], hosts=["a"])
    )
    placement = place(found, 6)
    preferences = host_preferences(found, placement, HOSTS)
    assert [rule.name for rule in broken_rules(found, placement, preferences, HOSTS)] == ["affinity 1"]
    assert {*hosts_of(found, placement, preferences)["step0"]} == {"a"}


@pytest.mark.parametrize("slots", [2, 3, 4])
@pytest.mark.parametrize("hosts", [["b", "c"], ["a", "d"], ["b", "c", "d"]])
def test_few_slots_keep_operators_apart_on_the_hosts_that_a_rule_names(hosts, slots):
    both = ["source0", "source1"]
    found = ruled(AffinityRule("AFFINITY", both, hosts=hosts), AffinityRule("ANTI_AFFINITY", both))
    placement = place(found, slots, capacities=HOSTS)
    assert not broken_rules(found, placement, host_preferences(found, placement, HOSTS), HOSTS)


@pytest.mark.parametrize("host", ["b", "c", "d"])
def test_what_is_on_the_only_host_that_is_left_for_others_makes_room(host):
    there = AffinityRule("AFFINITY", ["source0"], hosts=["a", host])
    found = ruled(there, AffinityRule("ANTI_AFFINITY", ["source0", "source1"]))
    placement = place(found, 6)
    home = {box: slot for slot, hosted in enumerate(placement) for box in hosted}
    left = {name: capacity for name, capacity in HOSTS.items() if name != "a"}
    preferences = host_preferences(found, placement, left, stay={home[1]: host})
    assert preferences[home[0]].hosts[0] == host
    assert not broken_rules(found, placement, preferences, left)


def test_choosing_hosts_comes_to_an_end_where_there_is_no_solution():
    spread = AffinityRule("ANTI_AFFINITY", ["step0", "step0"])
    found = ruled(spread, partitions=40)
    placement = place(found, len(found.execution.containers))
    for hosts, told in ((39, ["affinity 1"]), (40, [])):
        capacities = {str(host): HostCapacity(1) for host in range(hosts)}
        preferences = host_preferences(found, placement, capacities)
        rules = broken_rules(found, placement, preferences, capacities)
        assert [rule.name for rule in rules] == told


def test_slots_of_one_rack_get_hosts_of_one_rack_though_places_are_elsewhere():
    app = Application("app")
    source, step = app.add_operator("source", Source()), app.add_operator("step", Counter())
    app.add_stream("items", source.out, step.data, locality="RACK_LOCAL")
    app.add_affinity(AffinityRule("ANTI_AFFINITY", ["source", "step"]))
    found = plan_application(app)
    capacities = {"a1": HostCapacity(1, "a"), "b1": HostCapacity(5, "b"), "b2": HostCapacity(0, "b")}
    preferences = host_preferences(found, place(found, 2), capacities)
    assert {preference.hosts[0] for preference in preferences.values()} == {"b1", "b2"}
