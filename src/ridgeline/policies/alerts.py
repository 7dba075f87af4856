"""Alerts of promises: hooks, called when a promise changes, and rules for Prometheus."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import queue
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ridgeline.api.policy import Promise, side
from ridgeline.measure.deciding.figures import PromiseState

_LOG = logging.getLogger(__name__)
WAITING = 100
"""How many calls may wait; what comes on top of them is dropped, and counted."""


class Hook:
    """Calls a command (its arguments, the state on its input) or a webhook (a URL, the state posted as JSON).

    Calls are made one after the other in a thread of their own, so no window waits for them. Each is
    tried `attempts` times, for `timeout` seconds each. `dropped` and `failed` count what did not arrive.
    """

    def __init__(self, target: Sequence[str] | str, *, timeout: float = 10.0, attempts: int = 3) -> None:
        """Refuse a URL that is neither http nor https: a text is always a URL, never a shell's line."""
        if not target or (isinstance(target, str) and not target.startswith(("http://", "https://"))):
            raise ValueError(
                f"{target!r} is no hook: give a URL (http, https), or a command as a list of its arguments"
            )
        self._target = target
        self._timeout = timeout
        self._attempts = attempts
        self._calls: queue.Queue[bytes] = queue.Queue(WAITING)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.dropped = 0
        self.failed = 0

    def fire(self, application: str, state: PromiseState) -> bool:
        """Call the hook soon. False if too many calls wait, or if it is closed."""
        if self._ended.is_set():
            return False
        try:
            self._calls.put_nowait(json.dumps({"application": application, **asdict(state)}).encode())
        except queue.Full:
            self.dropped += 1
            return False
        if self._thread is None:
            # only when it is first needed: most applications keep their promises
            self._thread = threading.Thread(target=self._work, name="promise-hook", daemon=True)
            self._thread.start()
        return True

    def close(self, within: float = 1.0) -> None:
        """Make no further call; wait a little for the one that is under way, then end it."""
        self._ended.set()
        if self._thread is None:
            return
        self._thread.join(within)
        process = self._process
        if process is not None and process.poll() is None:
            _kill(process)

    def _work(self) -> None:
        while not self._ended.is_set():
            # with a timeout: `close` sets an event, which `get` does not see
            with contextlib.suppress(queue.Empty):
                self._deliver(self._calls.get(timeout=0.2))

    def _deliver(self, body: bytes) -> None:
        """Try a call until it arrives; whatever goes wrong is logged, and stays here."""
        for attempt in range(self._attempts):
            try:
                self._call(body)
            except Exception as error:  # noqa: BLE001
                _LOG.warning(
                    "the hook of a promise failed (attempt %d of %d): %s", attempt + 1, self._attempts, error
                )
                if self._ended.wait(min(2.0**attempt * 0.1, 5.0)):
                    break
            else:
                return
        self.failed += 1

    def _call(self, body: bytes) -> None:
        if isinstance(self._target, str):
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(self._target, body, headers)  # noqa: S310
            with urllib.request.urlopen(request, timeout=self._timeout):  # noqa: S310
                return
        self._run(list(self._target), body)

    def _run(self, command: list[str], body: bytes) -> None:
        """Run the command in a session of its own: when time is up its children end with it."""
        null = subprocess.DEVNULL
        with subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
        ) as process:
            self._process = process
            try:
                process.communicate(body, timeout=self._timeout)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise
        if process.returncode:
            raise OSError(f"{command[0]} ended with {process.returncode}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command and its children; one that has just ended is let go."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def alert_rules(
    application: str,
    promises: Sequence[Promise | PromiseState] = (),
    *,
    window_seconds: float = 1.0,
    wait: str = "1m",
) -> dict[str, Any]:
    """The rule file of an application, to be written as YAML or JSON.

    One alert for each promise, and those that every application needs. Its driver is gone, it has failed, is
    stuck, commits nothing, or has fewer slots than it wants. `window_seconds`: the width of its windows.
    `wait`: how long something has to be so, as Prometheus writes durations.
    """
    rules = [*_rules(application, window_seconds, wait), *(_rule(application, one, wait) for one in promises)]
    return {"groups": [{"name": f"ridgeline {_literal(application)}", "rules": rules}]}


def _rules(application: str, window_seconds: float, wait: str) -> Iterator[dict[str, Any]]:
    """The alerts of every application."""
    labels = f"application={_quoted(application)}"
    running = f'ridgeline_application_state{{{labels},state="RUNNING"}} == 1'
    minutes = max(5, math.ceil(3 * window_seconds / 60))
    stuck = 'verdict=~"stuck|unreachable"'
    named = _literal(application)
    yield _alert(
        "RidgelineDriverGone",
        f"absent(ridgeline_application_start_timestamp_seconds{{{labels}}})",
        "2m",
        f"{named}: no driver answers",
        "See whether its process runs, and start it again: it continues from its checkpoint.",
        severity="critical",
        application=named,
    )
    yield _alert(
        "RidgelineFailed",
        f'ridgeline_application_state{{{labels},state="FAILED"}} == 1',
        "0s",
        f"{named}: the run has failed",
        "The reason is in the driver's log. The same command continues from its checkpoint.",
        severity="critical",
    )
    yield _alert(
        "RidgelineStuck",
        f"ridgeline_verdict{{{labels},{stuck}}} == 1",
        wait,
        f"{named}: {{{{ $labels.verdict }}}}",
        "`ridgeline status` says at what: an operator, a source or an output.",
    )
    yield _alert(
        "RidgelineNoCommit",
        f"increase(ridgeline_windows_committed_total{{{labels}}}[{minutes}m]) == 0"
        f" and on (application, instance) {running}",
        wait,
        f"{named}: no window was committed for {minutes} minutes",
        "`ridgeline status` says why; `ridgeline lines --stack` shows where a container is.",
        severity="critical",
    )
    yield _alert(
        "RidgelineSlotsReduced",
        f"ridgeline_slots{{{labels}}} < ridgeline_slots_wanted{{{labels}}}",
        "10m",
        f"{named}: {{{{ $value }}}} slots only",
        "Spark has no cores for more, or hosts are out of reach. Containers spread again once it has.",
    )


def _rule(application: str, promise: Promise | PromiseState, wait: str) -> dict[str, Any]:
    """The alert of one promise; labels are quoted as PromQL quotes them, which is JSON's way."""
    labels = f"application={_quoted(application)},promise={_quoted(promise.name)}"
    of = f" of {promise.operator}" if promise.operator else ""
    summary = (
        f"{application}: {promise.kind}{of} is not {side(promise.kind)} {promise.limit:g} {promise.unit}"
    )
    return _alert(
        "RidgelinePromiseBroken",
        f"ridgeline_promise_kept{{{labels}}} == 0",
        wait,
        _literal(summary),
        "`ridgeline promises` shows since when; `ridgeline critical-path` what takes the time.",
        promise=_literal(promise.name),
    )


def _alert(
    name: str,
    expression: str,
    wait: str,
    summary: str,
    description: str,
    severity: str = "warning",
    **labels: str,
) -> dict[str, Any]:
    """An alert as Prometheus reads it."""
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": severity, **labels},
        "annotations": {"summary": summary, "description": description},
    }


def _literal(text: str) -> str:
    """A text in which Prometheus finds no template."""
    return text.replace("{{", "{ {")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
