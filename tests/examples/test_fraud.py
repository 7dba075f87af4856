"""The example of fraud: alerts equal those of a plain loop with ONNX Runtime alone."""

import csv
import importlib.util
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from ridgeline.testing import run_local
from support.paths import ROOT

FOLDER = ROOT / "examples" / "fraud"


def scores() -> dict[str, float]:
    """The risk of each payment."""
    session = onnxruntime.InferenceSession(str(FOLDER / "fraud-1.onnx"))
    seen: dict[str, list[int]] = defaultdict(list)
    found = {}
    for row in csv.DictReader((FOLDER / "payments.csv").read_text().splitlines()):
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
    spec = importlib.util.spec_from_file_location("fraud_example", FOLDER / "fraud.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    attributes = {f"{name}.partitions": str(partitions) for name in ("by_user", "features", "score")}
    run_local(module.app, attributes=attributes)
    expected = scores()
    assert written(tmp_path / "out" / "scores") == pytest.approx(expected, abs=1e-6)
    alerts = {name: risk for name, risk in expected.items() if risk > 0.5}
    assert 5 < len(alerts) < 40
    assert written(tmp_path / "out" / "alerts") == pytest.approx(alerts, abs=1e-6)
