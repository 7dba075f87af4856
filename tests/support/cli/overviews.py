"""A snapshot by hand: the service's answer for `ticks -> quote (2 partitions) -> console`, `ticks -> sma`."""

import io

from rich.console import Console

AT = 1_600_000_000.0  # 2020-09-13 12:26:40 UTC

PATH = {
    "windowId": 1234,
    "latencyMs": 46.0,
    "path": [
        {"operator": "ticks", "id": 1, "latencyMs": 3.0, "computeMs": 2.0, "transferMs": 1.0},
        {"operator": "quote[1]", "id": 3, "latencyMs": 41.0, "computeMs": 40.0, "transferMs": 1.0},
        {"operator": "console", "id": 4, "latencyMs": 2.0, "computeMs": 2.0, "transferMs": 0.0},
    ],
    "slack": {"quote[0]": 12.0, "sma": 35.5},
    "blame": [
        {"what": "planning", "operator": "", "ms": 2.0},
        {"what": "launch", "operator": "", "ms": 30.0},
        {"what": "compute", "operator": "quote[1]", "ms": 40.0},
        {"what": "commit", "operator": "", "ms": 25.0},
    ],
    "average": {"latencyMs": 50.0, "path": ["ticks", "quote[1]", "console"]},
    "share": {"ticks": 1.0, "quote[1]": 0.96, "quote[0]": 0.04, "console": 1.0},
    "windowLatencyMs": 97.0,
}


def operator(number, title, kind, latency, parts, rates, **more):
    compute, wait, transfer = parts
    return {
        "id": number,
        "operator": title,
        "logicalName": title.partition("[")[0],
        "container": number,
        "host": "worker",
        "pid": 40 + number,
        "kind": kind,
        "latencyMs": latency,
        "computeMs": compute,
        "waitMs": wait,
        "transferMs": transfer,
        "p50Ms": latency * 0.9,
        "p99Ms": latency * 2,
        "tuplesProcessedPSMA": rates[0],
        "tuplesEmittedPSMA": rates[1],
        "totalTuplesEmitted": 1000 * rates[1],
        "windowsBehind": 0,
        "errors": 0,
        **more,
    }


def operators():
    return [
        operator(1, "ticks", "input", 3.0, (2.0, 0.0, 1.0), (0.0, 4000.0)),
        operator(2, "quote[0]", "operator", 30.0, (20.0, 5.0, 5.0), (1500.0, 0.25)),
        operator(3, "quote[1]", "operator", 60.0, (40.0, 15.0, 5.0), (2500.0, 0.25), errors=7),
        operator(4, "console", "output", 2.0, (2.0, 0.0, 0.0), (0.5, 0.0)),
        operator(5, "sma", "output", 6.0, (1.0, 5.0, 0.0), (4000.0, 0.0), windowsBehind=2),
    ]


def age(title, place, number, average=120.0, p99=300.0, count=10, **more):
    figures = {
        "minMs": 10.0,
        "maxMs": 320.0,
        "avgMs": average,
        "p50Ms": 100.0,
        "p90Ms": 250.0,
        "p99Ms": p99,
        "p999Ms": 310.0,
    }
    return {
        "operator": title,
        "id": number,
        "at": place,
        "level": "INFO",
        "oldestMs": 400.0,
        "count": count,
        "negative": 0,
        **figures,
        **more,
    }


def ages():
    return {
        "operators": [
            age("ticks", "source", 1),
            age("console", "emit", 4),
            age("console", "commit", 4),
            age("sma", "commit", 5, p99=350.0),
        ]
    }


UNKNOWN = {"value": None, "basis": "unknown"}


def progress(**application):
    return {
        "windowId": 1235,
        "running": False,
        "elapsedSeconds": 0.0,
        "operators": [],
        "containers": [
            {"id": 0, "remainingSeconds": UNKNOWN, "lastHeartbeatAgeSeconds": 0.4, "silent": False}
        ],
        "window": {"remainingSeconds": None, "fractionDone": None, "basis": "unknown", "expectedEndAt": None},
        "sources": [source(**application)],
        "application": {
            "backlogRecords": 12300.0,
            "backlogSeconds": 40.0,
            "basis": "exact",
            "caughtUpAt": AT + 40,
            "verdict": "catching up",
            "windowsBehind": 0,
            "oldest": UNKNOWN,
            "bottleneck": None,
            "asOf": None,
            **application,
        },
    }


def source(**changes):
    return {
        "operator": "ticks",
        "backlog": {"value": 12300.0, "basis": "exact"},
        "backlogRecords": 12300.0,
        "backlogBytes": None,
        "backlogSeconds": 30.8,
        "drainPerSecond": 400.0,
        "arrivalPerSecond": 92.5,
        "basis": "exact",
        "oldest": {"value": 31.0, "basis": "estimated"},
        "caughtUpAt": AT + 40,
        "verdict": "catching up",
        "unit": "records",
        **{name: value for name, value in changes.items() if name in {"verdict", "caughtUpAt"}},
    }


def running_progress():
    """Window 1235 sums for 20 seconds."""
    summing = {
        "operator": "summing",
        "id": 2,
        "state": "running",
        "consumed": 20,
        "active": 1,
        "inputRemaining": {"value": 39.0, "basis": "exact"},
        "oldestInFlight": {},
        "remainingSeconds": {"value": 40.2, "basis": "estimated"},
    }
    waiting = {**summing, "operator": "console", "id": 4, "state": "waiting"}
    window = {
        "remainingSeconds": 41.0,
        "fractionDone": 0.33,
        "basis": "lower bound",
        "expectedEndAt": AT + 41,
    }
    return {
        **progress(),
        "running": True,
        "elapsedSeconds": 20.0,
        "operators": [summing, waiting],
        "window": window,
    }


def info(state="RUNNING", **changes):
    stats = {"windowsCommitted": 1235, "windowsRetried": 0, "slotsLost": 0, "slotsSpeculated": 0}
    return {
        "id": "run-1",
        "name": "quotes",
        "state": state,
        "reason": "",
        "windowSeconds": 0.5,
        "stats": {**stats, **changes.pop("stats", {})},
        **changes,
    }


def overview(**changes):
    return {
        "windowId": 1234,
        "at": AT,
        "info": info(),
        "promises": [],
        "change": None,
        "criticalPath": PATH,
        "recordAge": ages(),
        "progress": progress(),
        "operators": operators(),
        "window": {"windowId": 1234, "lateMs": 3.0, "tuplesIn": 4000},
        **changes,
    }


def drawn(*parts, width=100):
    """What stands on a terminal of that width, without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for part in parts:
        console.print(part)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]
