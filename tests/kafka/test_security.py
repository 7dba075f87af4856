"""Users, rights and TLS of a real broker: what works, and what is said where it does not."""

import base64
import json
import logging
import time
from typing import NamedTuple

import pytest

from ridgeline import Application, RidgelineError
from ridgeline.connectors.kafka import KafkaInput, KafkaOutput
from ridgeline.plan import describe, plan_application, to_dict
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.kafka.secure import PASSWORD, SecureKafka
from support.operators.kafka_topics import fill, numbers, values

pytestmark = pytest.mark.slow


class Number(NamedTuple):
    number: int


@pytest.fixture(scope="module")
def secure():
    """A broker with users and TLS."""
    if reason := SecureKafka.available():
        pytest.skip(reason)
    with SecureKafka() as broker:
        broker.add_scram_user()
        yield broker


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)


def user(name="shop", mechanism="PLAIN", password="env:SHOP_PASSWORD", protocol="SASL_PLAINTEXT"):
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }


def token(_):
    """A token that is not signed, which the broker of the test takes, as of an identity provider's client."""
    now = time.time()
    parts = {"alg": "none"}, {"sub": "shop", "iat": now, "exp": now + 600}
    text = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in parts]
    return f"{'.'.join(text)}.", now + 600


def ways(secure):
    """The ways to connect that are right: the listener and the options."""
    ca = {"ssl.ca.location": secure.path("ca")}
    client = {"ssl.certificate.location": secure.path("client"), "ssl.key.location": secure.path("client")}
    bearer = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    own = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=shop"}
    return {
        "a token of the client": ("SASL", bearer | own),
        "a token of a function": ("SASL", bearer | {"oauth_cb": token}),
        "a user": ("SASL", user()),
        "a user of SCRAM over TLS": ("BOTH", user(mechanism="SCRAM-SHA-512", protocol="SASL_SSL") | ca),
        "a certificate": ("TLS", {"security.protocol": "SSL"} | ca | client),
    }


def reading(servers, source, target, options):
    app = Application("secure", window="20ms")
    numbers = KafkaInput(source, servers=servers, schema=Number, until="end", options=options)
    app.read("numbers", numbers).write("out", KafkaOutput(target, servers=servers, options=options))
    return app


WAYS = [
    "a user",
    "a user of SCRAM over TLS",
    "a certificate",
    "a token of the client",
    "a token of a function",
]


@pytest.mark.parametrize("way", WAYS)
def test_topic_to_topic_exactly_once(secure, way, tmp_path, caplog):
    source, target = secure.topic(partitions=2), secure.topic(partitions=2)
    fill(secure, source, numbers(50))
    listener, options = ways(secure)[way]
    app = reading(secure.address(listener), source, target, options)
    with caplog.at_level(logging.DEBUG):
        run = run_local(app, checkpoint=tmp_path)
    assert sorted(one["number"] for one in values(secure, target)) == list(range(50))
    plan = plan_application(app)
    shown = [repr(event) for event in run.events] + [caplog.text, describe(plan), json.dumps(to_dict(plan))]
    assert not [text for text in shown if PASSWORD in text]
    assert not [
        file for file in tmp_path.rglob("*") if file.is_file() and PASSWORD.encode() in file.read_bytes()
    ]


def tls(secure, authority="ca", **more):
    return {"ssl.ca.location": secure.path(authority), "security.protocol": "SSL", **more}


def over_tls(secure, authority="ca", **more):
    return tls(secure, authority) | user(protocol="SASL_SSL", **more)


USER, AUTHORITY = "does not accept the user.*`sasl", "not trusted.*`ssl.ca.location`"
WRONG = {
    "a wrong password": (lambda _: ("SASL", user(password="wr0ng-word")), USER),
    "an unknown user": (lambda _: ("SASL", user("nobody")), USER),
    "a wrong password of SCRAM": (
        lambda secure: ("BOTH", over_tls(secure, mechanism="SCRAM-SHA-512", password="wr0ng-word")),
        USER,
    ),
    "an unknown authority": (lambda secure: ("BOTH", over_tls(secure, "other-ca")), AUTHORITY),
    "no authority": (lambda _: ("BOTH", user(protocol="SASL_SSL")), AUTHORITY),
    "a certificate that has expired": (
        lambda secure: ("EXPIRED", tls(secure)),
        "not trusted.*renew it if it has expired",
    ),
    "no certificate of the client": (lambda secure: ("TLS", tls(secure)), "`ssl.certificate.location`"),
    "an unknown mechanism": (lambda _: ("SASL", user(mechanism="SCRAM-SHA-256")), "SCRAM-SHA-256.*`sasl"),
    "a variable that is not set": (
        lambda _: ("SASL", user(password="env:NOT_SET")),
        "variable `NOT_SET` is not set",
    ),
    "a file that is not there": (
        lambda _: ("BOTH", user(protocol="SASL_SSL") | {"ssl.ca.location": "/nowhere/ca.pem"}),
        "ssl.ca.location failed.*correct `options`",
    ),
}
"""What is wrong: the listener with the options, and the words of the error."""


@pytest.mark.parametrize("half", ["input", "output"])
@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(secure, what, half, tmp_path):
    topic = secure.topic()
    fill(secure, topic, numbers(3))
    make, words = WRONG[what]
    listener, options = make(secure)
    app = Application("secure", window="20ms")
    if half == "input":
        address = secure.address(listener)
        source = KafkaInput(topic, servers=address, schema=Number, until="end", options=options)
        app.read("numbers", source).write("out", KafkaOutput(topic, servers=secure.direct_servers))
    else:
        output = KafkaOutput(topic, servers=secure.address(listener), options=options)
        app.read("source", ListInput(Number, [(1,)])).write("numbers", output)
    with pytest.raises(RidgelineError, match=f"(?s)numbers.*({words})") as raised:
        run_local(app, checkpoint=tmp_path)
    assert PASSWORD not in str(raised.value)
    assert "wr0ng-word" not in str(raised.value)


def test_a_user_without_rights(secure, tmp_path):
    topic, address = secure.topic(), secure.address("SASL")
    fill(secure, topic, numbers(3))
    app = Application("secure", window="20ms")
    source = KafkaInput(topic, servers=address, schema=Number, until="end", options=user("guest"))
    app.read("numbers", source).write("out", CollectorSink(Number))
    denied = "does not allow it .*give the user the right"
    with pytest.raises(RidgelineError, match=rf"`numbers` cannot read `{topic}`: Kafka {denied}"):
        run_local(app, checkpoint=tmp_path / "in")
    app = Application("secure", window="20ms")
    output = KafkaOutput(topic, servers=address, options=user("guest"))
    app.read("source", ListInput(Number, [(1,)])).write("out", output)
    with pytest.raises(RidgelineError, match=rf"`out` cannot write to `{topic}`: Kafka {denied}"):
        run_local(app, checkpoint=tmp_path / "out")


def test_a_broker_that_starts_again_is_no_refusal(secure, reading):
    topic = secure.topic()
    fill(secure, topic, numbers(3))
    listener, options = ways(secure)["a user of SCRAM over TLS"]
    one = reading(secure, topic, servers=secure.address(listener), options=options)
    one.until(lambda at: at == {f"{topic}-0": 3}, "all messages")
    for end in (secure.kill, secure.stop):
        end()
        one.until(lambda _: one.enumerator.problem, "that it is away")
        secure.start()
        fill(secure, topic, numbers(3))
        one.until(lambda _: not one.enumerator.problem, "that it answers")
    one.until(lambda at: at == {f"{topic}-0": 9}, "what came since")
