"""The handshake: who knows the secret is let in, and nobody learns it from what is said."""

import pytest

from ridgeline.engine.exchange.connection import Handshake
from ridgeline.engine.exchange.network import STRAM, Peer, RefusedError

SECRET = b"a secret of thirty-two bytes ..."
SLOT, MASTER = Peer(3, 1), Peer(STRAM, 7)


def nonce(number):
    return bytes([number]) * 32


def caller(me=SLOT, secret=SECRET, number=1, other=MASTER, binding=b""):
    return Handshake(me, secret, nonce(number), other, binding)


def listener(me=MASTER, secret=SECRET, number=2, binding=b""):
    return Handshake(me, secret, nonce(number), None, binding)


def talk(one, two):
    """Carry out a handshake; what was said, by whom."""
    said = [(0, one.begin())]
    while said[-1][1]:
        side, message = said[-1]
        said.append((1 - side, (two, one)[side].feed(message)))
    return said[:-1]


def test_both_ends_learn_who_the_other_is():
    one, two = caller(), listener()
    said = talk(one, two)

    assert (one.peer, two.peer) == (MASTER, SLOT)
    assert (one.missing, two.missing) == (0, 0)
    assert [(side, len(message)) for side, message in said] == [(0, 50), (1, 82), (0, 32)]
    assert SECRET not in b"".join(message for _, message in said)


@pytest.mark.guide("002", "Security")
@pytest.mark.parametrize(
    ("one", "two", "text"),
    [
        (
            caller(secret=b"another secret of enough bytes"),
            listener(),
            "does not know the application's secret",
        ),
        (
            caller(),
            listener(secret=b"another secret of enough bytes"),
            "does not know the application's secret",
        ),
        (caller(binding=b"certificate of the one between"), listener(binding=b"ours"), "stands between"),
        (caller(binding=b""), listener(binding=b"ours"), "stands between"),
        (caller(other=Peer(4)), listener(Peer(5)), r"slot 5 \(attempt 0\) is at the address of slot 4"),
        (caller(other=Peer(4, 1)), listener(Peer(4, 0)), r"slot 4 \(attempt 0\) is at the address of"),
    ],
)
def test_others_are_refused_by_the_end_that_has_connected(one, two, text):
    with pytest.raises(RefusedError, match=text) as refused:
        talk(one, two)

    assert refused.value.reason == "unauthenticated"
    assert (one.peer, two.peer) == (None, None)


def test_who_listens_refuses_a_proof_without_the_secret():
    two = listener()
    two.feed(caller().begin())
    with pytest.raises(RefusedError) as refused:
        two.feed(bytes(32))

    assert refused.value.reason == "unauthenticated"
    assert two.peer is None


@pytest.mark.guide("002", "RPC Protocol")
def test_a_recorded_conversation_opens_nothing():
    said = [message for _, message in talk(caller(), listener())]

    again = listener(number=9)  # the recorded caller, said again to who listens
    again.feed(said[0])
    with pytest.raises(RefusedError):
        again.feed(said[2])
    with pytest.raises(RefusedError):  # the recorded answer, said again to who connects
        caller(number=9).feed(said[1])


def test_a_proof_is_of_no_use_in_the_other_direction():
    one, two = caller(), listener()
    challenge = two.feed(one.begin())
    with pytest.raises(RefusedError):
        two.feed(challenge[50:])


def test_an_answer_of_ones_own_words_is_refused():
    one = caller(me=SLOT, other=SLOT)
    with pytest.raises(RefusedError):
        one.feed(one.begin() + bytes(32))


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"RIDGE1", bytes(50)])
def test_what_is_no_handshake_is_refused_at_its_first_bytes(data):
    with pytest.raises(RefusedError, match=r"a handshake begins with b'RIDGELIN'; got") as refused:
        listener().feed(data)

    assert refused.value.reason == "malformed"


def test_another_version_is_refused_by_name():
    hello = bytearray(caller().begin())
    hello[8] = 9
    with pytest.raises(RefusedError, match="speaks version 1 of the protocol; the other speaks 9"):
        listener().feed(bytes(hello))


@pytest.mark.parametrize(("secret", "number"), [(b"", 32), (b"short", 32), (SECRET, 0), (SECRET, 31)])
def test_a_secret_that_could_be_guessed_is_not_taken(secret, number):
    with pytest.raises(ValueError, match=r"take both from `secrets.token_bytes`"):
        Handshake(SLOT, secret, bytes(number))
