import gc

from ridgeline.engine.process.garbage import (
    collect_after,
    collect_again,
    short_pauses,
)


def test_garbage_is_collected_later_while_many_tuples_come_one_by_one():
    usual = gc.get_threshold()[0]
    with short_pauses():
        collect_after(1_000_000)
        assert gc.get_threshold()[0] > 2_000_000
        collect_after(1)  # an operator behind gets what the one before has made
        assert gc.get_threshold()[0] > 2_000_000
        collect_again()
        assert gc.get_threshold()[0] == usual
        collect_after(1_000_000)
    assert gc.get_threshold()[0] == usual


def test_what_is_left_of_new_objects_is_looked_at_often_and_all_is_as_before_at_the_end():
    usual = gc.get_threshold()
    with short_pauses(), short_pauses():
        assert gc.get_threshold()[1] < usual[1]
    assert gc.get_threshold() == usual


def test_a_process_that_did_not_ask_for_short_pauses_collects_as_before():
    usual = gc.get_threshold()
    collect_after(1_000_000)
    collect_again()
    assert gc.get_threshold() == usual
