"""The example of fraud: alerts equal those of a plain loop with ONNX Runtime alone, of files and live."""

import csv
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import psycopg
import pytest

from ridgeline.testing import run_local
from support.crash.processes import Driver
from support.examples.contract import loaded
from support.operators.kafka_topics import fill, seen, values
from support.paths import ROOT
from support.services import Kafka, Postgres
from support.services.fixtures import kafka, postgres
from support.waiting import wait_until

__all__ = ["kafka", "postgres"]

FOLDER = ROOT / "examples" / "fraud"


def scores(payments: Iterable[dict[str, Any]]) -> dict[str, float]:
    """The risk of each payment."""
    session = onnxruntime.InferenceSession(str(FOLDER / "fraud-1.onnx"))
    seen: dict[str, list[int]] = defaultdict(list)
    found = {}
    for row in payments:
        own = seen[row["user"]]
        own.append(int(row["cents"]))
        features = np.array([[own[-1] / (sum(own) / len(own)), int(row["hour"])]], np.float32)
        found[row["id"]] = float(session.run(["probabilities"], {"features": features})[0][0, 1])
    return found


def written(folder: Path) -> dict[str, Any]:
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    assert {row["model"] for row in rows} == {"fraud-1"}
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["risk"] for row in rows}


@pytest.mark.parametrize("partitions", [1, 3])
def test_alerts_are_those_of_a_plain_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    for name in ("payments.csv", "fraud-1.onnx"):
        shutil.copy(FOLDER / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    module = loaded(FOLDER / "fraud.py", monkeypatch)
    attributes = {f"{name}.partitions": str(partitions) for name in ("by_user", "features", "score")}
    run_local(module.app, attributes=attributes)
    expected = scores(csv.DictReader((FOLDER / "payments.csv").read_text().splitlines()))
    assert written(tmp_path / "out" / "scores") == pytest.approx(expected, abs=1e-6)
    alerts = {name: risk for name, risk in expected.items() if risk > 0.5}
    assert 5 < len(alerts) < 40
    assert written(tmp_path / "out" / "alerts") == pytest.approx(alerts, abs=1e-6)


@pytest.mark.spark
@pytest.mark.slow
def test_live_each_payment_is_scored_once(tmp_path: Path, kafka: Kafka, postgres: Postgres) -> None:
    shutil.copy(FOLDER / "fraud-1.onnx", tmp_path)
    source, dsn = kafka.topic(partitions=3), postgres.database()
    alerts, counts = f"{source}-alerts", [1500, 3000]
    where = {"payments.topic": source, "alerts.topic": alerts}
    properties = [word for name, value in where.items() for word in ("-D", f"{name}={value}")]

    def running(*more: str) -> Driver:
        words = ["--checkpoint", str(tmp_path / "state"), "--master", "local[2]", "--quiet", *properties]
        servers = {"KAFKA_SERVERS": kafka.servers, "POSTGRES_DSN": dsn}
        return Driver([str(FOLDER / "live.py"), *words, *more], tmp_path / "run.log", **servers)

    def pay(number: int) -> "subprocess.Popen[bytes]":
        given = {"servers": kafka.servers, "topic": source, "rate": 1500}
        given |= {"count": counts[number], "first": sum(counts[:number])}
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        return subprocess.Popen([sys.executable, FOLDER / "pay.py", *words])

    def rows() -> list[Any]:
        with psycopg.connect(dsn) as connection:
            if connection.execute("select to_regclass('scores')").fetchone() == (None,):
                return []
            return connection.execute("select id, risk, model from scores").fetchall()

    def written(count: int, driver: Driver) -> None:
        wait_until(lambda: len(rows()) >= count or driver.exit_code is not None, f"{count} scores")
        assert driver.exit_code is None, driver.text

    driver = running()
    try:
        assert pay(0).wait() == 0
        fill(kafka, source, [{"value": b"no payment", "key": "user1", "partition": 1}])
        written(1, driver)
        paying = pay(1)
        written(counts[0] + 1, driver)
        driver.kill()  # while payments come
        driver.clean()
        assert paying.wait() == 0
        driver = running("-D", "payments.until=end")
        assert driver.wait() == 0, driver.text
    finally:
        driver.clean()

    payments = [one for one in sent(kafka, source) if one is not None]
    assert len(payments) == sum(counts)
    expected = scores(payments)
    found = rows()
    assert len(found) == len(expected)
    assert {model for _, _, model in found} == {"fraud-1"}
    assert {name: risk for name, risk, _ in found} == pytest.approx(expected, abs=1e-6)
    read = [(one["id"], one["risk"]) for one in values(kafka, alerts)]
    assert sorted(read) == sorted((name, risk) for name, risk, _ in found if risk > 0.5)
    assert len(read) > 20
    [bad] = [line for file in (tmp_path / "bad").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert "no payment" in bad


def sent(kafka: Kafka, topic: str) -> Iterable[dict[str, Any] | None]:
    """The payments of a topic, partition after partition; None for what is none."""
    for messages in seen(kafka, topic).values():
        for message in messages:
            value = message.value()
            yield json.loads(value) if value.startswith(b"{") else None
