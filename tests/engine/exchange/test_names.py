"""Hosts whose names are not known, or not known any more, are found by their addresses."""

import pytest

from ridgeline.engine.exchange import address
from ridgeline.engine.exchange.address import TcpWay, own_address, targets, ways_of
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import Peer
from support.engine.wire import MASTER, Wire

UNKNOWN = "no-such-host.invalid"


def test_a_peer_whose_name_is_not_known_is_reached_by_its_address():
    wire = Wire()
    try:
        listen = Listen(unix=False, host="127.0.0.1", advertised=UNKNOWN, also="127.0.0.1")
        master, slot = wire.make(listen=listen), wire.make(Peer(0))
        assert [way.host for way in ways_of(master.address)] == [UNKNOWN, "127.0.0.1"]
        slot.connect(MASTER, master.address)
        wire.until(lambda: wire.opened(master) and wire.opened(slot), "the connection")
    finally:
        wire.close()


def test_what_is_bound_to_all_addresses_names_none_of_them():
    wire = Wire()
    try:
        made = wire.make(listen=Listen(unix=False, host="0.0.0.0", advertised="localhost"))
        assert [way.host for way in ways_of(made.address)] == ["localhost"]
    finally:
        wire.close()


def test_the_address_for_others_is_the_one_that_reaches_them():
    assert own_address(TcpWay("127.0.0.1", 4040)) == "127.0.0.1"
    assert own_address(TcpWay(UNKNOWN, 4040)) is None


def test_a_name_that_is_not_known_any_more_stands_for_what_it_was(monkeypatch):
    found = targets(TcpWay("localhost", 4040))
    assert found
    monkeypatch.setitem(address._known, UNKNOWN, address._known["localhost"])
    assert targets(TcpWay(UNKNOWN, 4040)) == found
    with pytest.raises(OSError, match=r"not known|resolution|not found"):
        targets(TcpWay("another-host.invalid", 4040))
