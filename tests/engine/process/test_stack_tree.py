"""Whole stacks of a thread that works: the shares beside those of a program that is known."""

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.heartbeats import read_heartbeat
from ridgeline.engine.process.heartbeat import encode
from ridgeline.engine.process.stack_tree import DEEPEST, LONGEST_NAME, MOST_NODES, StackTree
from ridgeline.measure.events import ContainerHeartbeat


def code_of(name, filename="user.py"):
    scope = {}
    exec(compile(f"def {name}(): pass", filename, "exec"), scope)
    return scope[name].__code__


def kind_of(filename):
    return filename.removesuffix(".py")


def shares(found):
    """The seconds of each stack, with what it calls."""
    paths, whole = [], {}
    for caller, function, seconds in found.nodes:
        path = () if caller < 0 else (*paths[caller], found.functions[function][2])
        paths.append(path)
        for depth in range(len(path) + 1):
            whole[path[:depth]] = whole.get(path[:depth], 0.0) + seconds
    return whole


def test_the_engine_that_calls_an_operator_is_left_out_and_a_recursion_is_there_once():
    tree = StackTree(kind_of, "engine")
    turn, take, walk = code_of("turn", "engine.py"), code_of("take"), code_of("walk")
    emit = code_of("emit", "engine.py")
    tree.add(7, [walk, walk, walk, take, turn, turn], 0.7)
    tree.add(7, [take, turn], 0.2)
    tree.add(7, [turn, turn], 0.1)
    found = tree.take()
    assert shares(found) == pytest.approx({(): 1.0, ("take",): 0.9, ("take", "walk"): 0.7})
    assert tree.take() is None
    tree.add(7, [emit, take, turn], 1.0)
    assert shares(tree.take())["take", "emit"] == pytest.approx(1.0)


def test_whatever_is_in_stacks_a_message_is_small_and_its_sums_stay():
    tree = StackTree(kind_of, "engine")
    turn = code_of("turn", "engine.py")
    for number in range(900):
        deep = [code_of(f"f{number}_{level}" + "x" * 900) for level in range(3)]
        tree.add(number % 3, [*deep, turn], 0.01)
    tree.add(0, [code_of(f"d{level}") for level in range(150)], 1.0)
    found = tree.take()
    assert len(found.nodes) <= MOST_NODES + 3
    assert sum(seconds for _, _, seconds in found.nodes) == pytest.approx(10.0, abs=0.02)
    assert all(caller < place for place, (caller, _, _) in enumerate(found.nodes))
    assert max(len(name) for _, _, name, _ in found.functions) <= LONGEST_NAME
    assert max(map(len, shares(found))) <= DEEPEST
    sent = encode(ContainerHeartbeat(0.0, -1, "h", 1, 0.0, stacks=found), SystemClock().wall)
    assert len(sent) < 100_000
    assert read_heartbeat(sent).stacks == found
