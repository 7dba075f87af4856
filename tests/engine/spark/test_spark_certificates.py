"""The certificate that Spark's JVM makes: what goes by it cannot be read on the way."""

from dataclasses import replace

import pytest
from cryptography import x509

from ridgeline.api.support.pickling import dumps
from ridgeline.engine.driver.slots.spark_slots import make_certificate
from ridgeline.engine.exchange.network import Peer
from support.engine.between import Between
from support.engine.wire import MASTER, TCP, Wire

pytestmark = pytest.mark.spark


def test_a_listener_on_the_wire_sees_neither_the_secret_nor_a_tuple(spark_context):
    certificate = make_certificate(spark_context._jvm)
    wire = Wire()
    master = wire.make(listen=replace(TCP, certificate=certificate))
    slot = wire.make(Peer(0))
    between = Between(wire, master.address)
    slot.connect(MASTER, between.address)
    row = dumps({"name": "Ada Lovelace", "secret": wire.secret})
    slot.send(MASTER, 1, row, [memoryview(b"Ada Lovelace" * 1_000)])
    wire.until(lambda: between.pass_on() and wire.received(master), "the frame")

    assert wire.received(master) == [(1, row, [b"Ada Lovelace" * 1_000])]
    assert len(between.passed) > 12_000
    for text in (b"Ada Lovelace", b"Lovelace", wire.secret, wire.secret[:8], wire.secret.hex().encode()):
        assert text not in between.passed
    between.close()
    wire.close()


def test_each_certificate_is_a_new_one_that_others_can_read(spark_context):
    one, other = (make_certificate(spark_context._jvm) for _ in range(2))
    read = x509.load_pem_x509_certificate(one.chain.encode())
    read.verify_directly_issued_by(read)

    assert one.digest != other.digest
    assert one.key != other.key
    assert read.subject.rfc4514_string() == "CN=ridgeline"
    assert read.signature_hash_algorithm.name == "sha256"
