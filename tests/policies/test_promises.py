"""What can be promised, and how Prometheus is told of it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from ridgeline.sla import (
    Promise,
    caught_up_within,
    error_share,
    late_share,
    latency,
    throughput,
    window_latency,
)
from support.programs import PROMTOOL, path_of


def test_durations_are_read_and_names_differ() -> None:
    promises = [
        latency("store", p99="2s"),
        latency("store", p50="500ms", over="5m"),
        window_latency(p90=1),
        caught_up_within("10m"),
        error_share("parse", at_most=0.001),
        late_share("parse", at_most=0.001),
        throughput("parse", at_least=1000),
    ]
    assert [promise.limit for promise in promises] == [2.0, 0.5, 1.0, 600.0, 0.001, 0.001, 1000.0]
    assert promises[1].over == 300.0
    assert len({promise.name for promise in promises}) == len(promises)
    assert [Promise.model_validate_json(promise.model_dump_json()) for promise in promises] == promises


def test_what_makes_no_promise_is_refused() -> None:
    with pytest.raises(ValueError, match="exactly one of p50, p90 and p99, not 0"):
        latency("store")
    with pytest.raises(ValueError, match="not 2"):
        latency("store", p50="1s", p99="2s")
    with pytest.raises(ValueError, match="a share is a number from 0 to 1"):
        error_share("parse", at_most=5)
    with pytest.raises(ValueError, match="a share is a number from 0 to 1"):
        late_share("parse", at_most=-1)
    with pytest.raises(ValidationError, match="less than or equal to 2592000"):
        latency("store", p99="2s", over="31d")


# The alert rules, as Prometheus itself judges them ----------------------------------------------------------


APPLICATION = 'shop "{{ $x }}"\\'
RULES = Path(__file__).parents[2] / "docs" / "grafana" / "alerts.yaml"


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    labels = {"application": APPLICATION, "instance": "a", **labels}
    quoted = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())
    return {"series": f"ridgeline_{name}{{{quoted}}}", "values": values}


HEALTHY = {
    "started": series("application_start_timestamp_seconds", "1x60"),
    "running": series("application_state", "1x60", state="RUNNING"),
    "failed": series("application_state", "0x60", state="FAILED"),
    "stuck": series("verdict", "0x60", verdict="stuck"),
    "committed": series("windows_committed_total", "0+60x60"),
    "slots": series("slots", "4x60"),
    "wanted": series("slots_wanted", "4x60"),
    "kept": series("promise_kept", "1x60", promise="latency_p99:store"),
}
CASES = {
    "": {},
    "RidgelineDriverGone": {"started": series("application_start_timestamp_seconds", "1x10 _x50")},
    "RidgelineFailed": {
        "failed": series("application_state", "0x10 1x50", state="FAILED"),
        "running": series("application_state", "1x10 0x50", state="RUNNING"),
        "committed": series("windows_committed_total", "0+60x10 600x50"),
    },
    "RidgelineStuck": {"stuck": series("verdict", "0x10 1x50", verdict="stuck")},
    "RidgelineNoCommit": {"committed": series("windows_committed_total", "0+60x10 600x50")},
    "RidgelineSlotsReduced": {"slots": series("slots", "4x10 2x50")},
    "RidgelinePromiseBroken": {"kept": series("promise_kept", "1x10 0x50", promise="latency_p99:store")},
}


def test_each_alert_fires_for_its_fault_alone(tmp_path: Path) -> None:
    promtool = path_of(PROMTOOL)
    rules = yaml.safe_load(RULES.read_text())
    shutil.copy(RULES, tmp_path / "rules.yaml")
    names = [rule["alert"] for rule in rules["groups"][0]["rules"]]
    assert sorted(names) == sorted(name for name in CASES if name)
    tests = [
        {
            "interval": "1m",
            "input_series": list({**HEALTHY, **changed}.values()),
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "40m",
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else [],
                }
            ],
        }
        for name, changed in CASES.items()
    ]
    (tmp_path / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    for words in (["check", "rules", "rules.yaml"], ["test", "rules", "test.yaml"]):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
