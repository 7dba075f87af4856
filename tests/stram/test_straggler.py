"""Which container is late: at given times."""

from ridgeline.plan.planner import plan_application
from ridgeline.stram.straggler import Overdue
from support.engine.applications import Sum
from support.engine.in_slots import two_stages


def overdue(**attributes):
    """Two containers that read, then others; windows of 1 s. Returns it and the containers by stage."""
    plan = plan_application(two_stages(Sum()), {}, {"window": "1s", **attributes})
    made = Overdue(plan)
    made.begin(7, 100.0)
    return made, [stage.containers for stage in plan.execution.stages]


def ids(containers):
    return [container.id for container in containers]


def test_nothing_is_late_before_its_time():
    made, _ = overdue()
    assert made.look(219.0, 0.0) is None
    assert made.look(220.0, 0.0) is not None


def test_no_count_of_windows_makes_it_less_than_a_minute():
    names = ("numbers", "total", "store")
    made, _ = overdue(**{f"{name}.timeout_window_count": "1" for name in names})
    assert made.look(159.0, 0.0) is None
    assert made.look(160.0, 0.0).limit_seconds == 60.0


def test_who_waits_for_others_is_not_to_blame():
    made, stages = overdue()
    first, *others = ids(stages[0])
    for container in others:
        made.ended(7, container, 101.0)
    late = made.look(300.0, 0.0)
    assert (late.container, late.window_id, late.seconds) == (first, 7, 199.0)


def test_the_first_window_under_way_counts_and_time_begins_with_the_window_before():
    made, stages = overdue()
    made.begin(8, 100.0)
    for containers in stages:
        for container in ids(containers):
            made.ended(7, container, 150.0)
    made.over(7)
    assert made.look(269.0, 0.0) is None
    assert made.look(270.0, 0.0).window_id == 8


def test_nothing_is_late_while_a_slot_works_or_while_nobody_could_hear():
    made, _ = overdue()
    made.works(250.0)
    assert made.look(369.0, 0.0) is None
    assert made.look(370.0, 300.0) is None
    assert made.look(420.0, 300.0).seconds == 120.0


def test_nothing_is_late_once_attempts_are_void():
    made, _ = overdue()
    made.over()
    assert made.look(1_000.0, 0.0) is None
    assert Overdue(plan_application(two_stages(Sum()))).look(1_000.0, 0.0) is None
