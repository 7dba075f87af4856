from ridgeline.engine.slot.task import worker_process


def test_a_process_that_was_not_forked_is_no_worker():
    assert worker_process() == (0.0, 0.0)
