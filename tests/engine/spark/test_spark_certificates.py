"""The certificate that Spark's JVM makes: what goes by it cannot be read on the way."""

import pytest
from cryptography import x509

from ridgeline.engine.driver.slots.spark_slots import make_certificate

pytestmark = pytest.mark.spark


def test_each_certificate_is_a_new_one_that_others_can_read(spark_context):
    one, other = (make_certificate(spark_context._jvm) for _ in range(2))
    read = x509.load_pem_x509_certificate(one.chain.encode())
    read.verify_directly_issued_by(read)

    assert one.digest != other.digest
    assert one.key != other.key
    assert read.subject.rfc4514_string() == "CN=ridgeline"
    assert read.signature_hash_algorithm.name == "sha256"
