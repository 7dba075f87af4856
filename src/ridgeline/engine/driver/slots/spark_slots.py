"""Slots on Spark: its cores, its jobs, and where STRAM and slots listen."""

from __future__ import annotations

import base64
import logging
import math
import secrets
import textwrap
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from ridgeline.api.clock import Clock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.duration import parse_duration
from ridgeline.engine.driver.slots.feed import SparkFeed
from ridgeline.engine.driver.slots.jobs import DESCRIPTION, SlotJobs
from ridgeline.engine.driver.slots.shared_folder import BlockSharing
from ridgeline.engine.driver.slots.spark_errors import (
    cause,
    died,
    gone,
    is_cancelled,
    is_own,
    job_text,
    stopped_error,
)
from ridgeline.engine.exchange.limits import Limits
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Network, Peer
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.exchange.streams import SILENT_SECONDS
from ridgeline.engine.exchange.tls import Certificate
from ridgeline.engine.slot import feed_task
from ridgeline.engine.slot import task as slot_task
from ridgeline.engine.spark.cluster import check_speculation, is_dynamic, is_local, is_on_request
from ridgeline.engine.spark.cores import (
    capacities,
    count_cores,
    extra_cores,
    held_cores,
    hold_cores,
    local_cores,
    most_cores,
    present_cores,
)
from ridgeline.engine.spark.java_object import ByteRdds
from ridgeline.engine.spark.profiles import check_need, given_by
from ridgeline.engine.spark.shared_context import redact
from ridgeline.engine.spark.worker_check import WorkerError, explain
from ridgeline.stram.patience import LONG_TASKS
from ridgeline.stram.placement import RESERVED_CORES, HostCapacities, count_slots
from ridgeline.stram.slot_resources import Need

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

    from ridgeline.engine.driver.slots.feed import SourceBatch


# The application's certificate, made in Spark's JVM: Python's standard library makes none.
#
# Its name and its dates need no trust: the ends trust this very certificate.

_INTEGER, _BIT_STRING, _OBJECT_ID, _UTF8, _SEQUENCE, _SET = 0x02, 0x03, 0x06, 0x0C, 0x30, 0x31
_UTC_TIME, _TIME, _VERSION = 0x17, 0x18, 0xA0
_ECDSA_WITH_SHA256 = bytes.fromhex("2a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("550403")
_V3 = b"\x02"
_KEY_BITS = 256
_LONG = 0x80


def make_certificate(jvm: Any) -> Certificate:
    """A new key on the curve P-256, and a certificate that it signs itself. Raises Py4JJavaError."""
    security = jvm.java.security
    generator = security.KeyPairGenerator.getInstance("EC")
    generator.initialize(_KEY_BITS)
    pair = generator.generateKeyPair()
    algorithm = _der(_SEQUENCE, _der(_OBJECT_ID, _ECDSA_WITH_SHA256))
    common_name = _der(_SEQUENCE, _der(_OBJECT_ID, _COMMON_NAME), _der(_UTF8, b"ridgeline"))
    name = _der(_SEQUENCE, _der(_SET, common_name))
    signed = _der(
        _SEQUENCE,
        _der(_VERSION, _der(_INTEGER, _V3)),
        _der(_INTEGER, b"\x01" + secrets.token_bytes(8)),
        algorithm,
        name,
        _der(_SEQUENCE, _der(_UTC_TIME, b"200101000000Z"), _der(_TIME, b"99991231235959Z")),
        name,
        _encoded(jvm, pair.getPublic(), "X509EncodedKeySpec"),
    )
    signature = security.Signature.getInstance("SHA256withECDSA")
    signature.initSign(pair.getPrivate())
    signature.update(signed)
    whole = _der(_SEQUENCE, signed, algorithm, _der(_BIT_STRING, b"\0", bytes(signature.sign())))
    key = _encoded(jvm, pair.getPrivate(), "PKCS8EncodedKeySpec")
    return Certificate(_pem("CERTIFICATE", whole), _pem("PRIVATE KEY", key))


def _encoded(jvm: Any, key: Any, form: str) -> bytes:
    """A key in a standard form. Its own class is none of Java's public ones, which alone py4j can call."""
    kind = jvm.java.lang.Class.forName(f"java.security.spec.{form}")
    return bytes(jvm.java.security.KeyFactory.getInstance("EC").getKeySpec(key, kind).getEncoded())


def _der(tag: int, *parts: bytes) -> bytes:
    """One element of ASN.1 in its distinguished encoding: tag, length, content."""
    content = b"".join(parts)
    size = len(content)
    length = size.to_bytes((size.bit_length() + 7) // 8 or 1, "big")
    return bytes([tag, *([] if size < _LONG else [_LONG | len(length)])]) + length + content


def _pem(label: str, data: bytes) -> str:
    lines = textwrap.fill(base64.b64encode(data).decode(), 64)
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


_log = logging.getLogger(__name__)
PORTS = "spark.ridgeline.slots.ports"
"""Spark's setting with the ports that STRAM and slots may listen on: `40000-40100`; default: any."""
PATIENCE = "spark.ridgeline.slots.patience"
"""Spark's setting with the time after which slots make do with the cores that there are: `20s`."""
_PATIENCE_SECONDS = 20.0
TIMEOUT = "spark.ridgeline.slots.timeout"
"""Spark's setting with the time after which a host that acknowledges nothing is cut off: `15s`."""
_LOOK_SECONDS = 0.5
_ASK_SECONDS = 5.0
_SAY_SECONDS = 60.0
_MANY = 1 << 16
"""More slots than any cluster has."""
_JOINING_SECONDS = 2.0
"""Executors of one application join within so long of each other."""
_ANY_HOST = "0.0.0.0"  # noqa: S104  who has not the application's certificate is cut off


class StoppedWaitingError(RidgelineError):
    """The run was asked to end while it waited for cores: there is nothing to end."""


class SparkSlots:
    """Where slots run: as tasks of Spark. Raises RidgelineError for a setting that is wrong.

    `listen`: where slots listen. `given`: which of the attributes `memory_mb`, `vcores` and `gpus` slots can
    have. `patience_seconds`: after so long without places for all slots the containers move to fewer.
    `silent_seconds`: a host that acknowledges nothing for so long is cut off.

    `stop` ends a wait for executors. `share`: the places that are held for the run, of which it takes as many
    as it needs; at its start it takes no others. 0: none is held, and it takes what is free. `page`: the
    address of the run's page, which the description of each job ends with; "": none.
    """

    def __init__(
        self,
        context: SparkContext,
        epoch: int,
        clock: Clock,
        stop: threading.Event | None = None,
        share: int = 0,
        page: str = "",
    ) -> None:
        self._context = context
        self._epoch = epoch
        self._clock = clock
        self._stop = stop
        self._master = str(context.master)
        self._share = share
        self._page = f", page {page}" if page else ""
        self._claimed = 0
        self._fed = 0
        self._ask_at = 0.0
        self._rdds: ByteRdds | None = None
        conf = context.getConf()
        self._settings = dict(conf.getAll())
        check_speculation(self._master, self._settings)
        self.given = given_by(self._master, self._settings)
        ports = port_range(conf.get(PORTS, ""))
        self.patience_seconds = patience_of(conf)
        self.silent_seconds = seconds_of(TIMEOUT, conf.get(TIMEOUT, ""), SILENT_SECONDS)
        self.listen = Listen()
        if not is_local(self._master):
            certificate = make_certificate(context._jvm)  # noqa: SLF001  PySpark has no other way to it
            self.listen = Listen(host=_ANY_HOST, ports=ports, certificate=certificate)

    def check(self, need: Need) -> None:
        """Raise RidgelineError if no slot can have so much."""
        check_need(need, self._master, self._settings)

    def claim(self, containers: int, fed: int) -> int:
        """Take places for the slots of so many containers; how many. Raises RidgelineError if too few.

        `fed`: how many of the containers are those of Spark sources. Raises StoppedWaitingError if the run is
        to end while places are waited for.
        """
        wanted = containers + max(RESERVED_CORES, fed)
        cores = self._settled_cores(wanted)
        extra, held = extra_cores(self._context), self._held_by_others
        least = held + RESERVED_CORES + 1
        if cores < least and self._more_may_come(least):
            self._wait_for_cores(least)
            cores = self._settled_cores(wanted)
        slots = min(self._share or _MANY, count_slots(containers, cores, extra, held, fed))
        self._hold(slots)
        self._fed = fed
        return slots

    @property
    def _held_by_others(self) -> int:
        return held_cores(self._context) - max(self._claimed, self._share)

    def _hold(self, places: int) -> None:
        """Take so many places in place of those of now. Its share stays held."""
        before, self._claimed = self._claimed, places
        hold_cores(self._context, max(places, self._share) - max(before, self._share))

    def _places(self, containers: int, cores: int, extra: int, least: int) -> int:
        """As `count_slots`, beside slots of others; `least` if there are too few cores."""
        try:
            return count_slots(containers, cores, extra, self._held_by_others, self._fed)
        except RidgelineError:
            return least

    def most(self) -> int:
        """How many places there may be in all, those that are taken among them. From any thread.

        On a cluster it asks the JVM.
        """
        cores = count_cores(self._context, _MANY)
        return self._places(_MANY, cores, extra_cores(self._context), self._claimed)

    def wanted(self, containers: int) -> int:
        """How many places so many containers would take if Spark had all cores that its settings allow.

        On a local Spark there are never more cores than at its start.
        """
        most = most_cores(self._master, self._settings)
        if most is None and not is_local(self._master):
            return containers
        cores, extra = most or local_cores(self._master) or 0, extra_cores(self._context)
        return self._places(containers, cores + extra, extra, self._claimed)

    def present(self, without: Collection[str] = ()) -> int:
        """How many of the places are there now; 0 if Spark has too few cores for any.

        Those on hosts of `without` do not count. Asks the JVM, a few milliseconds.

        A local Spark never loses any. With dynamic allocation Spark finds cores for its own jobs when they
        wait, so they need not be there.
        """
        if local_cores(self._master) is not None:
            return self._claimed
        cores = present_cores(self._context, without)
        if is_dynamic(self._settings) and cores - self._held_by_others >= self._claimed:
            return self._claimed
        return min(self._claimed, self._places(self._claimed, cores, 0, 0))

    def _more_may_come(self, cores: int) -> bool:
        """True if executors may join until there are so many cores: Spark's settings allow that."""
        most = most_cores(self._master, self._settings)
        return not is_local(self._master) and (most is None or most >= cores)

    def _wait_for_cores(self, least: int) -> None:
        """Wait until Spark has so many cores: up to the patience, or as long as executors are asked for."""
        patience = math.inf if is_on_request(self._master) else self.patience_seconds
        give_up_at = self._clock.monotonic() + patience
        limit = "the cluster was asked for more" if patience == math.inf else f"at most {patience:g} s"
        say_at = -math.inf
        while (cores := count_cores(self._context, least)) < least:
            now = self._clock.monotonic()
            if now >= give_up_at:
                return
            if now >= say_at:
                say_at = now + _SAY_SECONDS
                what = "slots need %d cores, and Spark has %d: waiting for executors (%s)"
                _log.warning(what, least, cores, limit)
            self._wait(_LOOK_SECONDS)

    def check_alive(self) -> None:
        """Raise SparkGoneError if Spark is no more: slots may live on without it. Called every second.

        Another program's Java process is asked, every few seconds.
        """
        if (ended := died(self._context)) is not None:
            raise ended
        now = self._clock.monotonic()
        if is_own(self._context) or now < self._ask_at:
            return
        self._ask_at = now + _ASK_SECONDS
        try:
            stopped = bool(self._context._jsc.sc().isStopped())  # noqa: SLF001  PySpark has no other way
        except (Py4JError, OSError, AttributeError) as error:
            raise gone(self._context, error) or error from None
        if stopped:
            raise stopped_error()

    def _settled_cores(self, wanted: int) -> int:
        """How many tasks Spark can run at a time, once these are `wanted` or no more executors join."""
        cores, before = count_cores(self._context, wanted), 0
        while before < cores < wanted and not is_local(self._master):
            self._wait(_JOINING_SECONDS)
            before, cores = cores, count_cores(self._context, wanted)
        return cores

    def _wait(self, seconds: float) -> None:
        """Wait for executors. Raises StoppedWaitingError if the run is to end."""
        if self._clock.wait(seconds, self._stop):
            raise StoppedWaitingError("the run was stopped while it waited for executors")

    def claim_more(self, places: int, without: Collection[str] = ()) -> int:
        """Take up to so many places more, as far as there are any now; how many. Waits for no executor.

        Those on hosts of `without` do not count.
        """
        wanted = self._claimed + places + max(RESERVED_CORES, self._fed)
        cores = count_cores(self._context, wanted, without)
        slots = self._places(self._claimed + places, cores, extra_cores(self._context), self._claimed)
        more = max(0, slots - self._claimed)
        self._hold(self._claimed + more)
        return more

    def release(self, places: int | None = None) -> None:
        """Give so many places back; None: all."""
        self._hold(0 if places is None else self._claimed - places)

    def capacities(self) -> HostCapacities:
        """The capacity of hosts for slots; none where there is nothing to choose."""
        return {} if is_local(self._master) else capacities(self._context)

    def open_network(self) -> Network:
        """Listen for the slots of a run.

        Where all of them are on this host it is a Unix socket. On a cluster it is a port too, on the host
        that Spark's own driver listens on. Raises RidgelineError if that cannot be.
        """
        listen = self.listen
        if not is_local(self._master):
            conf = self._context.getConf()
            advertised = str(conf.get("spark.driver.host", "")).strip("[]")
            bound = str(conf.get("spark.driver.bindAddress", advertised)).strip("[]")
            listen = replace(listen, host=bound, advertised=advertised)
        limits = Limits(silent_seconds=self.silent_seconds)
        return Sockets(Peer(STRAM, self._epoch), listen, self._clock, limits)

    def open_jobs(
        self,
        task: Callable[[int], str],
        describe: Callable[[int], str],
        need: Callable[[int], Need],
        wake: Callable[[], None],
    ) -> SlotJobs:
        """The starter of slots."""
        redact(self._context, slot_task.PROPERTY, feed_task.PROPERTY)

        def properties(slot: int) -> Mapping[str, str]:
            return {slot_task.PROPERTY: task(slot), DESCRIPTION: describe(slot) + self._page}

        return SlotJobs(self._context, slot_task.serve, properties, need, self._clock, wake)

    def open_feed(self, source: SourceBatch) -> SparkFeed:
        """The reader of a micro-batch for an attempt. Raises what Spark raises."""
        self._rdds = self._rdds or ByteRdds(self._context)
        return SparkFeed(self._context, self._rdds, source, self._page)

    def open_sharing(self) -> BlockSharing:
        """Where blocks may lie by reference."""
        return BlockSharing(self._context)

    def reason(self, error: Exception) -> str:
        """Why a job has ended, for people.

        Raises SparkGoneError or WorkerError if no other job would fare better.
        """
        text = job_text(error)
        if (lost := gone(self._context, error)) is not None:
            raise lost
        if unable := explain(text, self._master):
            raise WorkerError(unable)
        return f"{cause(text)}; {LONG_TASKS}" if is_cancelled(text) else cause(text)


def port_range(text: str | None) -> tuple[int, int]:
    """First and last port of a setting such as `40000-40100`; (0, 0) for none. Raises RidgelineError."""
    if not text:
        return 0, 0
    first, _, last = text.partition("-")
    if first.isdigit() and (last or first).isdigit() and 0 < int(first) <= int(last or first) < 1 << 16:
        return int(first), int(last or first)
    raise RidgelineError(f"`{PORTS}` must be two ports; got `{text}`; give them as `40000-40100`")


def patience_of(conf: SparkConf) -> float:
    """How long what the cluster does is waited for, in seconds. Raises RidgelineError."""
    return seconds_of(PATIENCE, conf.get(PATIENCE, ""), _PATIENCE_SECONDS)


def seconds_of(setting: str, text: str | None, default: float) -> float:
    """Seconds of a setting; the default for none. Raises RidgelineError."""
    try:
        return parse_duration(text) if text else default
    except ValueError as error:
        raise RidgelineError(f"`{setting}` must be a time; got `{text}`; give it as `20s` or `5m`") from error
