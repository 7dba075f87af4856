"""The alert rules, as Prometheus itself judges them."""

import json
import subprocess
from pathlib import Path

import yaml

from ridgeline.sla import alert_rules, latency
from support.programs import PROMTOOL, path_of

APPLICATION = 'shop "{{ $x }}"\\'


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
    rules = alert_rules(APPLICATION, [latency("store", p99="2s")])
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules, allow_unicode=True))
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
