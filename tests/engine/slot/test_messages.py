"""What slots get when they are given their containers: what several share is written once."""

from dataclasses import fields

import pytest

from ridgeline.engine.exchange.network import STRAM, Peer, Received
from ridgeline.engine.process.plan_distribution import PlanFile
from ridgeline.engine.slot.messages import Host, MalformedError, decode, encode, encode_hosts

SLOTS = {number: number for number in range(40)}
PEERS = {Peer(number): f"tcp:h:{number}" for number in range(40)}


def received(frame):
    kind, head, buffers = frame
    return Received(Peer(STRAM), kind, memoryview(head), [memoryview(one) for one in buffers])


def hosts():
    """Of slots with the same partners, of one with another, and of one that shares nothing."""
    first = Host("m", PlanFile("p0", ("secret",), 7, (), None, 3), "run", 3, (0,), SLOTS, PEERS, 1.5)
    second = first.like(PlanFile("p1", (), 7, (), None, 3), (1, 2))
    other = Host("m", PlanFile("p2", (), 7, (), None, 3), "run", 3, (3,), {4: 4}, {Peer(4): "x"}, 1.5)
    last = Host("m", PlanFile("p3", (), 8, (), None, 4), "run", 4, (), {}, {})
    return [first, second, other, first.like(first.plan, (5,)), last]


def test_hosts_are_read_as_they_were_however_many_share_an_encoder():
    encoded = encode_hosts()
    for host in hosts():
        frame = encoded(host)
        assert decode(received(frame)) == host
        assert decode(received(encode(host))) == host


def test_every_field_of_a_host_and_its_plan_is_sent():
    plan = PlanFile("p0", ("secret",), 7, ("package",), "files", 3)
    host = Host("m", plan, "run", 3, (0,), SLOTS, PEERS, 1.5)
    for one in (host, plan):
        assert all(getattr(one, field.name) != field.default for field in fields(one)), "give it a value here"
    assert decode(received(encode(host))) == host


def test_what_slots_share_is_written_once():
    encoded = encode_hosts()
    frames = [encoded(host) for host in hosts()]
    assert [one is two for one, two in zip(frames[0][2], frames[1][2], strict=True)] == [True] * 3
    assert frames[2][2][0] is frames[0][2][0]
    assert frames[3][2][1] is frames[0][2][1]
    assert frames[4][2][0] != frames[0][2][0]
    own = [len(head) for _, head, _ in frames]
    assert max(own) < 100 < len(frames[0][2][2])


@pytest.mark.parametrize("damage", ["no buffers", "two buffers", "other head", "missing peers"])
def test_a_host_that_is_damaged_is_no_message(damage):
    kind, head, buffers = encode(hosts()[0])
    if damage == "other head":
        head = head[:-3]
    elif damage == "missing peers":
        buffers = (*buffers[:2], encode(hosts()[4])[2][2])
    else:
        buffers = buffers[: 2 if damage == "two buffers" else 0]
    with pytest.raises(MalformedError, match="cannot be read"):
        decode(received((kind, head, buffers)))
