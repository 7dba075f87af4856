"""Slots as processes of this host: all of the engine but Spark, which these stand in for."""

import os
import signal
import threading
from collections import deque
from pathlib import Path

import pytest
from rich.console import Console

from ridgeline.api.clock import SystemClock
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.driver.run.triggers import Limits, TickTrigger
from ridgeline.engine.driver.slots.executor import SlotExecutor
from ridgeline.engine.driver.slots.jobs import JobEnded
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Peer
from ridgeline.engine.exchange.sockets import Sockets
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.measure.events import WindowCommitted
from ridgeline.stram.changes import EditPlan
from ridgeline.stram.placement import HostCapacity
from support.engine.fed_slots import MicroBatches, ProcessFeed
from support.engine.forked_slots import PROCESSES, no_slot, slot
from support.engine.on_spark import SparkRun, planner_of, raises
from support.waiting import PATIENCE_SECONDS, wait_until

_TRIES = 4
"""As Spark tries a task."""


class ProcessJobs:
    """Starts a slot again when its process dies, as Spark does, at most `_TRIES` times a job."""

    def __init__(self, target, task, wake, cores):
        self._target = target
        self._task = task
        self._wake = wake
        self._ended = deque()
        self._processes = {}
        self._threads = []
        self._cancelled = set()
        self.cores = threading.Semaphore(cores)
        """One for each process that may run."""
        self.hosts, self.full = (), set()
        """Hosts, and those without a free core: then a slot runs on the last one."""
        self.asked, self._nodes = [], {}
        self.lost_cores = 0
        """So many processes take their core with them when they end."""

    def node(self, number, _host):
        return self._nodes.get(number, "")

    def start(self, number, hosts=()):
        self.asked.append((number, hosts))
        if self.hosts:
            wanted = [host for host in hosts if host not in self.full]
            self._nodes[number] = wanted[0] if wanted else self.hosts[-1]
        self._cancelled.discard(number)
        thread = threading.Thread(target=self._run, args=(number, self._task(number)), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, number, text):
        for attempt in range(_TRIES):
            while not self.cores.acquire(timeout=0.02):
                if number in self._cancelled:
                    self._ended.append(JobEnded(number, RuntimeError("cancelled")))
                    return
            process = PROCESSES.Process(target=self._target, args=(text, attempt), daemon=True)
            process.start()
            self._processes[number] = process
            process.join()
            if not self.lost_cores:
                self.cores.release()
            self.lost_cores = max(0, self.lost_cores - 1)
            if process.exitcode == 0 or number in self._cancelled:
                break
        error = None if process.exitcode == 0 else RuntimeError(f"exit code {process.exitcode}")
        self._ended.append(JobEnded(number, error))
        self._wake()

    def cancel(self, number):
        self._cancelled.add(number)
        if number in self._processes:
            self._processes[number].kill()

    def connected(self, number):
        pass

    def disconnected(self, number):
        pass

    def take_ended(self):
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def close(self, seconds):
        for thread in self._threads:
            thread.join(max(seconds, PATIENCE_SECONDS))
        assert not any(thread.is_alive() for thread in self._threads)


def kill(*pids):
    """SIGKILL to slots; all are dead when it returns, so that the run learns of all at once."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(_lives, pids)), "the slots to be dead")


def _lives(pid):
    """True unless all threads of a process are gone, and so are its connections."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return found[0] not in "ZX" or len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False


class NoSharing:
    """All blocks go by value."""

    def place(self, _window_id, _attempt):
        return None

    def reported(self, _window_id, _bytes_out):
        pass

    def void(self):
        pass

    def committed(self, _window_id):
        pass

    def close(self):
        pass


class ProcessSlots:
    """A platform, as `SparkSlots`, of so many places."""

    listen = Listen()
    patience_seconds = 0.2
    silent_seconds = 15.0
    given = ()

    def check(self, _need):
        pass

    def __init__(self, places, epoch, target, plan):
        self.places = self.most_places = places
        self.claimed = 0
        self.hosts, self.full = (), set()
        self._plan = plan
        self._target = target
        self._epoch = epoch
        self.jobs = None

    def claim(self, containers, fed):
        self.claimed = min(containers, self.places)
        return self.claimed

    def wanted(self, containers):
        return min(containers, self.most_places)

    def claim_more(self, places, _without=()):
        more = max(0, min(places, self.places - self.claimed))
        self.claimed += more
        return more

    def capacities(self):
        return {host: HostCapacity(self.places) for host in self.hosts}

    def most(self):
        return self.places

    def present(self, _without=()):
        return self.places

    def release(self, places=None):
        self.claimed -= self.claimed if places is None else places

    def lose(self, places):
        """A host with so many slots, which the caller kills, is gone for good."""
        self.places -= places
        self.jobs.lost_cores += places

    def check_alive(self):
        pass

    def open_network(self):
        return Sockets(Peer(STRAM, self._epoch), Listen(), SystemClock())

    def open_jobs(self, task, _describe, _need, wake):
        self.jobs = ProcessJobs(self._target, task, wake, self.places)
        self.jobs.hosts, self.jobs.full = tuple(self.hosts), self.full
        return self.jobs

    def open_feed(self, source):
        return ProcessFeed(source, self._plan)

    def open_sharing(self):
        return NoSharing()

    def reason(self, error):
        return str(error)


def run_in_processes(
    app,
    folder,
    *,
    places=2,
    windows=None,
    each=None,
    seen=None,
    stop=None,
    expect=None,
    stillborn=False,
    batches=None,
    started=None,
    heartbeats=None,
    hosts=(),
    full=(),
    changes=None,
    **attributes,
):
    """Run an application in slots that are processes; returns as `run_on_spark`.

    `seen(run, event)` follows each event, `each(run, committed)` each commit. `attributes` are those of the
    application. `stillborn`: no process ever becomes a slot. `batches`: what Spark has for each window.
    `hosts`: names for where slots run, those of `full` have no core. `started(run)` is called before the
    first. `heartbeats`: what takes those of the slots. `changes`: the edits that are asked for once a window
    is committed, by window; `run.asked` has what became of them. Tests that ask themselves give none, `{}`.
    """
    app.attributes.setdefault("window_work", "1h")  # as there
    planner = planner_of(app, attributes)
    plan, stop = planner.settled(None), stop or threading.Event()
    asking = dict(changes or {})
    run, clock = SparkRun(plan), SystemClock()
    run.claimed = []
    checkpoint = Checkpoint(LocalStorage(str(folder)), plan.logical.application)

    def observe(event):
        run.events.append(event)
        if seen:
            seen(run, event)
        if isinstance(event, WindowCommitted):
            run.claimed.append(run.platform.claimed)
        if isinstance(event, WindowCommitted) and event.window_id in asking:
            run.asked.append(run.run.changes.ask(EditPlan(tuple(asking.pop(event.window_id))), "test"))
        if each and isinstance(event, WindowCommitted):
            each(run, event)

    def context(operator):
        return PublisherContext(
            plan.logical.application,
            operator,
            checkpoint.run_id,
            clock,
            Console(quiet=True),
            f"{folder}/staging",
            spark=lambda: pytest.fail("there is no Spark"),
            epoch=checkpoint.epoch,
            check_owner=checkpoint.check_owner,
        )

    run.platform = ProcessSlots(places, checkpoint.epoch, no_slot if stillborn else slot, plan)
    run.platform.hosts, run.platform.full = hosts, set(full)
    if changes is not None:
        run.platform.patience_seconds = PATIENCE_SECONDS  # new slots take a while to start
    executor = SlotExecutor(
        run.platform,
        plan,
        checkpoint.storage,
        checkpoint.run_id,
        checkpoint.epoch,
        clock=clock,
        observe=observe,
        heartbeats=heartbeats,
    )
    with raises(expect) as caught:
        run.run = ApplicationRun(plan, checkpoint, executor, clock, context, observe, planner=planner)
        orderly = False
        if started:
            started(run)
        try:
            if batches is not None:
                MicroBatches(run.run, batches).drive()
            else:
                TickTrigger(run.run, clock, stop).drive(Limits(run.run, windows, stop))
            orderly = True
        finally:
            run.run.close(orderly=orderly)
    return (run, caught.value) if expect else run
