import inspect

from ridgeline import OperatorContext, Publisher, SystemClock


def test_values_handed_over_are_taken_once_and_in_order():
    context = OperatorContext(
        application="app",
        name="sink",
        operator_id=3,
        partition=1,
        partitions=2,
        clock=SystemClock(),
        run_id="r",
    )
    context.hand_over(1)
    context.hand_over("b")
    assert context.engine.take_handed_over() == [1, "b"]
    assert context.engine.take_handed_over() == []
    assert (context.window_id, context.attempt, context.partition, context.partitions) == (-1, 0, 1, 2)


def test_a_publisher_need_override_nothing():
    publisher = Publisher()
    publisher.open(None, None)
    assert publisher.stage(0, []) is None
    publisher.publish(0)
    publisher.close()
    assert list(inspect.signature(Publisher.stage).parameters) == ["self", "window_id", "values"]
