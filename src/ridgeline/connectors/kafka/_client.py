"""The client of Kafka: its settings, what it prints, and which of its errors mean what; names of topics."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.operator import Operator
from ridgeline.api.support.masking import mask_text
from ridgeline.connect import SourceUnavailableError, extras, secret_value
from ridgeline.connect.datasets import Dataset, kafka_datasets
from ridgeline.connect.extras import library_faults
from ridgeline.operators.payloads import PayloadFormat, Registry

SERVERS = "KAFKA_SERVERS"
"""The environment variable with the servers, where `servers` is not given."""
_OWN = {
    "bootstrap.servers": "`servers`",
    "metadata.broker.list": "`servers`",
    "group.id": "`group`",
    "isolation.level": "`isolation`",
    "auto.offset.reset": "`begin` and `when_lost`",
    "enable.auto.commit": "the commits of the application",
    "enable.auto.offset.store": "the commits of the application",
    "enable.partition.eof": "the operator",
    "transactional.id": "the operator",
    "enable.idempotence": "the operator",
    "delivery.report.only.error": "the operator",
    "partitioner": "`partitioner`",
    "logger": "the operator",
    "error_cb": "the operator",
}
"""Settings of the client that follow from properties of the operators."""
_ALERTS = ("alert bad certificate", "certificate required", "alert unknown ca", "alert certificate")
"""The words for a client's certificate that a broker refuses."""
_CONNECTING = (
    *("sasl.", "ssl.", "security.", "socket.", "broker.", "reconnect.", "oauth", "enable.ssl."),
    *("enable.sasl.", "https.", "client.dns.", "plugin."),
)
"""How the options begin that every kind of client has: those of the connection."""
_TRY_SECONDS, _PAUSE_SECONDS = 1.0, 0.05
_ANSWER_SECONDS = 10.0
_REFUSED_TIMES = 2
"""A refusal counts if it comes again at the next try: a broker that starts may refuse once."""
_SAID_AGAIN_SECONDS = 30.0
_log = logging.getLogger("ridgeline.connectors.kafka")


def library() -> Any:
    """The client's library. Raises RidgelineError if it is not installed."""
    return extras.library("confluent_kafka", "Kafka needs confluent-kafka, which cannot be imported", "kafka")


def admin_library() -> Any:
    """The library's module for what an administrator does."""
    return extras.library("confluent_kafka.admin", "Kafka needs confluent-kafka", "kafka")


def found_servers(servers: str | Sequence[str]) -> str:
    """The addresses as the client takes them: those given, else the environment's, else none."""
    text = servers if isinstance(servers, str) else ",".join(servers)
    return text or os.environ.get(SERVERS, "")


def client_faults(servers: str, options: Mapping[str, Any]) -> list[tuple[str, object, str]]:
    """Refuse that no servers are known, and options that properties stand for."""
    faults = library_faults("servers", servers, library)
    if not servers:
        rule = f"must be given, or the environment variable `{SERVERS}`: host:port, or several with commas"
        faults.append(("servers", servers, rule))
    return faults + [
        (f"options.{name}", "...", f"is set by {_OWN[name]}") for name in options if name in _OWN
    ]


class ClientLog:
    """Takes the lines that the client prints: the same one is logged at most twice a minute.

    Without that a client prints 20 lines a second while a broker is away.
    """

    def __init__(self, operator: str, clock: Clock | None = None) -> None:
        self._operator, self._clock = operator, clock or SystemClock()
        self._lock = threading.Lock()
        self._last: dict[str, tuple[float, int]] = {}

    def log(self, level: int, text: str, *values: Any, **_: Any) -> None:
        """Log a line. Called by the client, from threads of its own."""
        line = mask_text(text % values if values else text)
        kind = "".join(letter for letter in line if not letter.isdigit())
        now = self._clock.monotonic()
        with self._lock:
            at, left_out = self._last.get(kind, (-_SAID_AGAIN_SECONDS, 0))
            if now - at < _SAID_AGAIN_SECONDS:
                self._last[kind] = at, left_out + 1
                return
            if len(self._last) > 1_000:  # noqa: PLR2004  kinds of lines that are remembered
                self._last.clear()
            self._last[kind] = now, 0
        more = f" ({left_out} more of these)" if left_out else ""
        _log.log(min(level, logging.WARNING), "`%s`: %s%s", self._operator, line, more)


def text_of(error: object) -> str:
    """The text of the client's error, without secrets."""
    found: Any = error.args[0] if isinstance(error, library().KafkaException) and error.args else error
    text = found.str() if isinstance(found, library().KafkaError) else str(found)
    return mask_text(f"{text}".strip() or type(error).__name__)


def code_of(error: object) -> int | None:
    """The code of the client's error; None for another error."""
    found: Any = error.args[0] if isinstance(error, library().KafkaException) and error.args else error
    return int(found.code()) if isinstance(found, library().KafkaError) else None


def codes(*names: str) -> frozenset[int]:
    """The codes of errors of these names, of those that the library knows."""
    known = library().KafkaError
    return frozenset(int(getattr(known, name)) for name in names if hasattr(known, name))


def _is_refused(error: object) -> bool:
    return error is not None and _refused(error) is not None


def _refused(error: object) -> tuple[str, str] | None:
    """The refusal that an error means, and its remedy; None where waiting may help."""
    code = code_of(error)
    if code in codes("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"):
        return "does not accept the user", "correct `sasl.*` in `options`"
    if code in codes(
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ):
        return "does not allow it", "give the user the right to it"
    if code not in codes("_SSL", "_TRANSPORT"):
        return None
    text = text_of(error)
    if "certificate verify failed" in text:
        remedy = (
            "name the file of its authority by `ssl.ca.location` in `options`, or renew it if it has expired"
        )
        return "has a certificate that is not trusted", remedy
    if any(alert in text for alert in _ALERTS):
        remedy = "give one by `ssl.certificate.location` and `ssl.key.location` in `options`"
        return "does not accept the certificate of the client", remedy
    return (
        ("and the client do not agree on TLS", "correct `ssl.*` in `options`")
        if code in codes("_SSL")
        else None
    )


class Cluster:
    """Makes the clients of an operator, and says what their errors mean.

    `error`: the last one that a client has reported beside its answers, from its threads. One that says why
    stays, if the next one only says that no broker answers.
    """

    def __init__(self, servers: str, options: Mapping[str, Any], operator: str) -> None:
        self.servers, self._options, self._operator = servers, options, operator
        self.error: Any = None

    def client(
        self,
        kind: str,
        own: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
        *,
        connects: bool = False,
    ) -> Any:
        """A `Consumer`, `Producer` or `AdminClient`: `own` settings, the user's options, or else `defaults`.

        Options that name a secret (`env:`, `file:`) get its value. `connects`: those count that
        every kind of client has. Raises RidgelineError for options that it refuses, and for a secret that is
        not there.
        """
        configured: dict[str, Any] = {
            **(defaults or {}),
            "bootstrap.servers": self.servers,
            "client.id": f"ridgeline-{self._operator}",
            "reconnect.backoff.max.ms": 1_000,
            "log.connection.close": False,
            "error_cb": self._note,
            "logger": ClientLog(self._operator),
        }
        for name, value in self._options.items():
            if connects and not name.startswith(_CONNECTING):
                continue
            what = f"{self._operator}.options.{name}"
            configured[name] = secret_value(value, what) if isinstance(value, str) else value
        configured |= own
        try:
            return getattr(admin_library() if kind == "AdminClient" else library(), kind)(configured)
        except (library().KafkaException, TypeError, ValueError) as error:
            msg = f"`{self._operator}`: the client of Kafka refuses its options: {text_of(error)}; "
            raise RidgelineError(msg + "correct `options`") from None

    def _note(self, error: Any) -> None:
        """Keep an error. The client calls it while it is polled."""
        if _is_refused(self.error) and not _is_refused(error):
            return
        if self.error is None or code_of(error) not in codes("_ALL_BROKERS_DOWN"):
            self.error = error

    # What errors mean ---------------------------------------------------------------------------------------

    def because(self, otherwise: object) -> str:
        """The last error as text, or the other one."""
        found = text_of(otherwise) if self.error is None else text_of(self.error)
        if code_of(self.error) in codes("_ALL_BROKERS_DOWN"):
            found += "; does it run there, and with this `security.protocol`?"
        return found

    def reason(self, error: object) -> str:
        """The text of an error; where it only says that nothing answers, of the last one that was noted."""
        quiet = code_of(error) in codes("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_WAIT_COORD")
        return self.because(error) if quiet else text_of(error)

    def unavailable(self, error: object) -> SourceUnavailableError:
        """The error that makes the application wait for the broker."""
        return SourceUnavailableError(f"Kafka at {self.servers}: {self.reason(error)}")

    def refuse(self, what: str, *errors: object) -> None:
        """Raise RidgelineError if one of these errors, or None, is of a user who may not do this."""
        for error in errors:
            if error is not None and (found := _refused(error)) is not None:
                reason, remedy = found
                msg = f"`{self._operator}` cannot {what}: Kafka {reason} ({text_of(error)}); {remedy}"
                raise RidgelineError(msg) from None

    # Topics -------------------------------------------------------------------------------------------------

    def topics(self, admin: Any, seconds: float) -> Mapping[str, Any]:
        """The topics of the cluster, by name.

        The client itself tries again and again where a broker refuses it. It says so only while it is polled.
        Raises RidgelineError for such a refusal, KafkaException if there is no answer within `seconds`.
        """
        clock = SystemClock()
        deadline, refused = clock.monotonic() + seconds, 0
        while True:
            try:
                found: Mapping[str, Any] = admin.list_topics(timeout=min(_TRY_SECONDS, seconds)).topics
            except library().KafkaException as error:
                admin.poll(0)
                refused = refused + 1 if _is_refused(self.error) or _is_refused(error) else 0
                if refused >= _REFUSED_TIMES:
                    self.refuse("connect", error, self.error)
                if clock.monotonic() >= deadline:
                    raise
                clock.wait(_PAUSE_SECONDS)
            else:
                admin.poll(0)
                self.error = None
                return found

    def refuse_hidden(self, admin: Any, topic: str, what: str) -> None:
        """Raise RidgelineError if a topic is not listed since the user may not see it."""
        try:
            topic_ids(admin, [topic])
        except library().KafkaException as error:
            self.refuse(what, error)


def topic_ids(admin: Any, topics: Sequence[str]) -> dict[str, str]:
    """The ids of the topics that are there, by name: one that is made again has another.

    Raises KafkaException.
    """
    named = library().TopicCollection(list(topics))
    found = {}
    for name, future in admin.describe_topics(named, request_timeout=_ANSWER_SECONDS).items():
        try:
            found[name] = str(future.result().topic_id)
        except library().KafkaException as error:
            if code_of(error) not in codes("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID"):
                raise
    return found


def cluster_of(admin: Any) -> str:
    """The id of the cluster, empty if its servers do not say it. Raises KafkaException."""
    return str(admin.list_topics(timeout=_ANSWER_SECONDS).cluster_id or "")


def partition_name(topic: str, partition: int) -> str:
    """The name of a topic's partition: `orders-0`."""
    return f"{topic}-{partition}"


def parts_of(name: str) -> tuple[str, int]:
    """Topic and number of a partition's name.

    >>> parts_of("new-orders-12")
    ('new-orders', 12)
    """
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def listed(topic: str | Sequence[str]) -> list[str]:
    """The topics and patterns of the property `topic`."""
    return [topic] if isinstance(topic, str) else list(topic)


def pattern_of(text: str) -> re.Pattern[str] | None:
    """The compiled pattern of a text that begins with `^`; None for a topic's name. Raises ValueError."""
    if not text.startswith("^"):
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"`{text}` is no regular expression: {error}") from None


def chosen(wanted: Iterable[str], known: Iterable[str]) -> tuple[set[str], list[str]]:
    """The topics that there are, by names and patterns; and the names that are not there.

    Topics of Kafka itself, such as `__consumer_offsets`, are read by name only.
    """
    there = set(known)
    found: set[str] = set()
    missing = []
    for one in wanted:
        pattern = pattern_of(one)
        if pattern is not None:
            found |= {topic for topic in there if not topic.startswith("__") and pattern.search(topic)}
        elif one in there:
            found.add(one)
        else:
            missing.append(one)
    return found, missing


def nearest(topic: str, known: Iterable[str]) -> str:
    """A hint which topic was meant."""
    return did_you_mean(topic, [name for name in known if not name.startswith("__")])


class RegistrySettings(NamedTuple):
    """Where schemas are registered."""

    url: str
    password: str
    certificates: str | None

    def client(self) -> Registry:
        """A client, with a memory of its own."""
        password = secret_value(self.password, "registry_password") if self.password else ""
        return Registry(self.url, password, self.certificates)


class AtKafka(Operator):
    """A mixin of inputs and outputs of Kafka."""

    servers: str | Sequence[str] = Field(default="", kw_only=True)
    format: PayloadFormat = Field(default="json", kw_only=True)
    message: Any = Field(default=None, kw_only=True)
    avro_schema: Any = Field(default=None, kw_only=True)
    registry: str | None = Field(default=None, kw_only=True)
    registry_password: str = Field(default="", kw_only=True)
    registry_certificates: str | None = Field(default=None, kw_only=True)
    options: dict[str, Any] = Field(default={}, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse options that cannot be, and servers that are not known."""
        return [*super().property_faults(), *client_faults(self.at, self.options)]

    def settle_properties(self) -> None:
        """Take the servers from the environment, if they are not given."""
        super().settle_properties()
        self.servers = self.at

    def datasets(self) -> list[Dataset]:
        """The topics, as `ridgeline.connect.datasets` names them."""
        return kafka_datasets(self.at, getattr(self, "topic", ""))

    @property
    def at(self) -> str:
        """The addresses of servers as the client takes them."""
        return found_servers(self.servers)

    @property
    def registry_settings(self) -> RegistrySettings | None:
        """Where schemas are registered, if they are."""
        if self.registry is None:
            return None
        return RegistrySettings(self.registry, self.registry_password, self.registry_certificates)
