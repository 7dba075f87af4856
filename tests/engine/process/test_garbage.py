import gc
import weakref

from ridgeline.engine.process.garbage import (
    collect_after,
    collect_again,
    short_pauses,
    spare_loaded,
    spare_reported,
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


class Node:
    """Something that is in a cycle."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_replaced_is_collected_though_it_was_left_to_no_collection():
    with short_pauses():
        old, garbage = Node(), weakref.ref(Node())
        spare_loaded()
        gone = weakref.ref(old)
        del old
        gc.collect()
        assert gone() is not None  # nobody looks at it
        new = Node()
        spare_loaded(replaced=True)
        assert gone() is None
        assert garbage() is None
        assert new.itself is new


def test_what_windows_with_many_reports_leave_is_spared_ever_more_seldom():
    with short_pauses():
        collect_after(reports=2_000)
        kept, spared = [], []
        for window in range(1, 9):
            kept += [Node() for _ in range(100)]
            before = gc.get_freeze_count()
            spare_reported()
            if gc.get_freeze_count() >= before + 100:
                spared.append(window)
    assert spared == [1, 2, 4, 8]
    assert gc.get_freeze_count() == 0
