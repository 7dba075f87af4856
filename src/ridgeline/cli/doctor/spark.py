"""Looks at a cluster through Spark, and at the store of a checkpoint as the driver would use it."""

from __future__ import annotations

import contextlib
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.support.masking import mask_text
from ridgeline.cli.doctor.judging import OK, WARNING, WRONG, Finding, judge
from ridgeline.cli.doctor.probing import Facts, prober

if TYPE_CHECKING:
    from pyspark import SparkContext

    from ridgeline.engine.files.storage import DriverStorage

_CLOCK = SystemClock()
_CLOCKS_APART = 0.5
_RACERS = 8


def examine(
    master: str, conf: Mapping[str, str], checkpoint: str | None, *, hosts: bool
) -> Iterator[Finding]:
    """Start Spark, and look at the hosts of its executors and at a checkpoint that is no local folder."""
    from ridgeline.engine.spark.session import start_context

    local = checkpoint is None or is_local(checkpoint)
    try:
        context = start_context(
            "ridgeline-doctor", master, conf, streaming=False, local_checkpoint=local, widest=2
        )
    except RidgelineError as error:
        what, _, remedy = str(error).partition("; ")
        yield Finding("Spark", WRONG, what, remedy)
        return
    try:
        if hosts:
            yield from _hosts(context, checkpoint)
        if checkpoint is not None and not local:
            yield from _store(checkpoint, context)
    finally:
        context.stop()


def _hosts(context: SparkContext, checkpoint: str | None) -> Iterator[Finding]:
    """Each host once: versions, clock, whether it sees the checkpoint and reaches the driver."""
    from ridgeline.engine.spark.worker_check import Environment, difference, explain, looker, own_environment

    folder = local_path(checkpoint) if checkpoint is not None and is_local(checkpoint) else None
    driver = context.getConf().get("spark.driver.host", socket.gethostname()) or socket.gethostname()
    tasks = max(1, context.defaultParallelism)
    records = context.parallelize(range(tasks), tasks)
    with contextlib.closing(socket.create_server(("", 0))) as server:
        address = driver, server.getsockname()[1]
        try:
            environments = records.mapPartitionsWithIndex(looker(None)).collect()
            began = _CLOCK.wall()
            found: list[Facts] = records.mapPartitionsWithIndex(prober(folder, address, 5)).collect()
            ended = _CLOCK.wall()
        except Exception as error:  # noqa: BLE001  reported as a finding
            text = explain(str(error), str(context.master)) or str(error).splitlines()[0]
            what, _, remedy = text.partition("; ")
            yield Finding("workers", WRONG, what, remedy or "see the log of the executor")
            return
    if fault := difference(own_environment(), [Environment(*one) for one in environments]):
        what, _, remedy = fault.rpartition("; ")
        yield Finding("versions of workers", WRONG, what, remedy)
    else:
        yield Finding("versions of workers", OK, "as those of the driver")
    by_host = {str(facts["host"]): facts for facts in found}
    yield Finding("hosts", OK, f"{len(by_host)} answered: {', '.join(sorted(by_host))}")
    for host, facts in sorted(by_host.items()):
        apart = max(began - facts["now"], facts["now"] - ended, 0.0)
        remedy = "let NTP keep the clocks of all hosts"
        state = WARNING if apart > _CLOCKS_APART else OK
        text = f"at least {apart:.1f} s from the driver's" if state != OK else "as the driver's"
        yield Finding("clock", state, text, remedy if state != OK else "", host)
        if facts["unreachable"]:
            remedy = (
                "open the driver's ports to it, or give `spark.driver.host` and `spark.ridgeline.slots.ports`"
            )
            what = f"it does not reach the driver at {driver}: {facts['unreachable']}"
            yield Finding("network", WRONG, what, remedy, host)
        yield from (one for one in judge(facts, folder, host) if one.subject != "clock" or one.state != OK)


def _store(uri: str, context: SparkContext) -> Iterator[Finding]:
    """Whether a store creates a file only if there is none, and how long that takes."""
    from ridgeline.engine.driver.run.launch import hadoop_storage
    from ridgeline.engine.files.storage import open_storage

    subject = f"store of {mask_text(uri)}"
    name = f"doctor/{uuid.uuid4().hex}"
    try:
        storage = hadoop_storage(uri, context)
        before = _CLOCK.monotonic()
        first, second = storage.create(name, b"1"), storage.create(name, b"2")
        seconds = (_CLOCK.monotonic() - before) / 2
        kept = storage.read(name)
        same = open_storage(uri).read(name)
        winners = _race(storage, f"{name}-race")
        storage.delete([name, f"{name}-race"])
    except (RidgelineError, OSError) as error:
        what, _, remedy = str(error).partition("; ")
        yield Finding(subject, WRONG, what, remedy or "see whether it may be written")
        return
    if not first or second or kept != b"1" or winners != 1:
        what = f"it lets {winners} of {_RACERS} writers create one file, and overwrites: {kept != b'1'}"
        remedy = "two drivers could commit the same window: use a store with conditional writes"
        yield Finding(subject, WRONG, what, remedy)
    elif same != kept:
        yield Finding(
            subject, WRONG, "workers read something else than the driver", "give both the same endpoint"
        )
    else:
        slow = seconds > _CLOCKS_APART
        remedy = "each commit waits for one: use longer windows, or a nearer store" if slow else ""
        found = f"creates a file only if there is none, in {1000 * seconds:.0f} ms"
        yield Finding(subject, WARNING if slow else OK, found, remedy)


def _race(storage: DriverStorage, name: str) -> int:
    """The number of writers, of several at the same time, that seem to have created one file."""
    results: list[Any] = []

    def create(number: int) -> None:
        with contextlib.suppress(OSError):
            results.append(storage.create(name, str(number).encode()))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(_RACERS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sum(results)
