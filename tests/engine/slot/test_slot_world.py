"""Slots in any order that a network allows: late messages, broken lines, failures, deaths.

Every container runs each window of the attempt that counts once, in order, on the blocks of this attempt.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import deep
from support.engine.slots import World, expected, specs_of

WINDOWS = 6


def take_step(world, luck, weights):
    """One thing that can happen next happens: an event arrives, or a process has its turn."""
    coming = world.board.on_their_way()
    turns = [*sorted(world.loops), None]
    if coming and luck.random() < weights:
        world.board.deliver(*luck.choice(coming))
        return
    peer = luck.choice(turns)
    if peer is None:
        world.stram()
    else:
        world.loops[peer].turn(0.0)


def break_something(world, luck):
    """Cut a line between two slots, or kill a slot; the last frames on their way are lost or not."""
    lines = [line for _, line in sorted(world.board.lines.items(), key=lambda one: sorted(one[0]))]
    between = [line for line in lines if all(peer.slot >= 0 for peer in line.ends)]
    if between and luck.random() < 0.5:
        line = luck.choice(between)
        world.board.cut(line, {peer: luck.choice([0, 0, 1, 9]) for peer in line.ends})
    else:
        world.kill(luck.choice(sorted(world.loops)), luck.choice([0, 0, 1, 9]))


@st.composite
def worlds(draw):
    stages = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    count = sum(stages)
    pairs = [(one, other) for one in range(count) for other in range(count)]
    missing = draw(st.sets(st.sampled_from(pairs), max_size=4))
    slots = draw(st.integers(1, 3))
    home = {number: draw(st.integers(0, slots - 1)) for number in range(count)}
    faults = draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, WINDOWS - 1)), max_size=2))
    specs = specs_of(stages, {pair: pair not in missing for pair in pairs})
    return World(specs, home, WINDOWS, draw(st.integers(1, 4)), faults)


@settings(max_examples=deep(40), deadline=None)
@given(world=worlds(), seed=st.integers(0, 2**32), breaks=st.integers(0, 4), weights=st.floats(0.2, 0.9))
def test_every_container_runs_each_window_once_and_in_order(world, seed, breaks, weights):
    luck = random.Random(seed)
    moments = {luck.randrange(400) for _ in range(breaks)}
    for moment in range(20_000):
        if moment in moments:
            break_something(world, luck)
        take_step(world, luck, weights)
        if world.done or world.problems:
            break
    assert world.problems == []
    assert world.done, "it got stuck"
    assert world.found == expected(world.specs, WINDOWS)


def test_nothing_runs_on_what_comes_after_a_broken_connection():
    """A slot connects for an attempt before it hears that the connection broke on which blocks of it came."""
    world = World(specs_of([2, 1], {(0, 2): True, (1, 2): True}), {0: 0, 1: 0, 2: 1}, 1, 1, {(0, 0)})
    stram, (sender, receiver) = world.network.me, sorted(world.loops)

    def deliver(*ends):
        for line, peer in world.board.on_their_way():
            while peer in ends and set(line.ends) == set(ends) and line.to[peer]:
                world.board.deliver(line, peer)

    def let(*turns):
        for peer in turns:
            for other in (sender, receiver):
                deliver(stram, other)
            if peer == stram:
                world.stram()
            else:
                world.loops[peer].turn(0.0)

    let(stram, sender, receiver)
    deliver(sender, receiver)
    let(receiver, sender, stram, sender)  # the sender fails, and sends its first blocks of the next attempt
    deliver(stram, receiver)
    line = world.board.lines[frozenset((sender, receiver))]
    world.board.cut(line, {sender: 0, receiver: 1})
    let(receiver)
    assert frozenset((sender, receiver)) in world.board.lines
    deliver(sender, receiver)
    let(sender, sender)
    deliver(sender, receiver)
    let(receiver)
    assert not world.found
    luck = random.Random(1)
    while not world.done:
        take_step(world, luck, 0.5)
    assert world.found == expected(world.specs, 1)
