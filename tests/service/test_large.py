"""500 operators, long histories, retries and many askers at once: every answer is right and bounded."""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from ridgeline.measure.events import ApplicationEnded, WindowCommitted
from support.service.counted_objects import counted_objects
from support.service.large import fed, window
from support.service.watched import BASE, feed, payments, serving

PATHS = [
    *("/info", "/logicalPlan", "/logicalPlan/operators", "/logicalPlan/operators/balances"),
    *("/physicalPlan", "/physicalPlan/operators"),
    *("/physicalPlan/operators/2", "/physicalPlan/containers", "/physicalPlan/streams", "/latency"),
    *("/criticalPath", "/recordAge", "/progress", "/windows"),
]


@pytest.mark.slow
def test_of_10_000_windows_the_last_1_000_are_kept():
    with counted_objects(2_000, 10_000) as ((before, after), client):
        assert after < before * 1.1  # bounded: nothing grows with the windows
        windows = client.get("/windows")["windows"]
        assert [one["windowId"] for one in windows] == list(range(9_000, 10_000))
        assert [one["windowId"] for one in client.get("/windows?limit=3")["windows"]] == [9_997, 9_998, 9_999]
        assert client.get("/windows/9000")["windowId"] == 9_000
        assert client.get("/windows/8999", 404)["hint"] == "kept are 9000 to 9999"
        families = {family.name: family for family in parse(client.ask("/metrics")[2].decode())}
        assert families["ridgeline_windows_committed"].samples[0].value == 10_000
        counts = {
            sample.labels["operator"]: sample.value
            for sample in families["ridgeline_operator_window_latency_seconds"].samples
            if "_count" in sample.name
        }
        assert set(counts.values()) == {10_000}


@pytest.mark.slow
def test_many_ask_while_windows_commit():
    watch, plan, now, events = fed(payments(), 1)
    over = threading.Event()

    def commit():
        rng = random.Random(1)
        window_id = 1
        while not over.is_set():
            feed(watch, now, *window(events, window_id, rng))
            window_id += 1

    def ask(number):
        seen = []
        for _ in range(8):  # while some hundred windows are committed
            overview = json.loads(json.dumps(watch.overview()))
            ids = {
                overview["latency"]["windowId"],
                overview["criticalPath"]["windowId"],
                *(row["recoveryWindowId"] for row in overview["operators"]),
            }
            assert ids == {overview["windowId"]}  # no overview is of two windows
            body = client.ask("/metrics")[2].decode()
            found = {family.name: family for family in parse(body)}
            committed = found["ridgeline_windows_committed"].samples[0].value
            counted = {
                sample.value
                for sample in found["ridgeline_operator_window_latency_seconds"].samples
                if sample.name.endswith("_count")
            }
            assert counted == {committed}  # no scrape either
            seen.append(committed)
            assert client.ask(BASE + PATHS[number % len(PATHS)])[0] == 200
        assert seen == sorted(seen)
        return seen[-1]

    with serving(watch, plan) as client, ThreadPoolExecutor(6) as pool:
        committing = threading.Thread(target=commit)
        committing.start()
        try:
            last = list(pool.map(ask, range(6)))
        finally:
            over.set()
            committing.join()
        assert max(last) > 1
        feed(watch, now, ApplicationEnded(now.seconds, "finished"))
        assert client.get("/info")["state"] == "FINISHED"
    assert watch.subscribers_dropped == 0
    assert any(isinstance(event, WindowCommitted) for event in events)
