"""Spark's settings for slots: ports, and the certificate for TLS."""

import pytest

from ridgeline import RidgelineError
from ridgeline.engine.driver.slots.spark_slots import certificate_of, port_range
from ridgeline.engine.exchange.tls import Certificate
from support.engine.certificates import certificate_and_key


@pytest.mark.parametrize(("text", "ports"), [("", (0, 0)), ("4000", (4000, 4000)), ("1-65535", (1, 65535))])
def test_ports_are_one_or_a_range(text, ports):
    assert port_range(text) == ports


@pytest.mark.parametrize("text", ["0", "x", "2-1", "1-70000", "-5", "1-2-3"])
def test_what_is_no_range_is_refused(text):
    with pytest.raises(RidgelineError, match=r"must be two ports; got `.*`; give them as `40000-40100`"):
        port_range(text)


def test_a_certificate_is_read_from_the_files_that_are_named(tmp_path):
    chain, key = certificate_and_key()
    (tmp_path / "chain.pem").write_text(chain)
    (tmp_path / "key.pem").write_text(key)

    assert certificate_of(f"{tmp_path}/chain.pem", f"{tmp_path}/key.pem") == Certificate(chain, key)
    assert certificate_of("", None) is None
    with pytest.raises(RidgelineError, match=r"got `spark.ridgeline.slots.key` alone; give `.*` too"):
        certificate_of("", "key.pem")
    with pytest.raises(RidgelineError, match="are no certificate and its key; got: "):
        certificate_of(f"{tmp_path}/chain.pem", f"{tmp_path}/missing.pem")
