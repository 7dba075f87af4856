"""What can be promised, and how Prometheus is told of it."""

import pytest
import yaml
from pydantic import ValidationError

from ridgeline.sla import (
    Promise,
    alert_rules,
    caught_up_within,
    error_share,
    late_share,
    latency,
    throughput,
    window_latency,
)


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
    with pytest.raises(ValidationError, match="less than or equal to 900"):
        latency("store", p99="2s", over="1h")


def test_each_promise_has_an_alert_that_survives_yaml() -> None:
    promises = [latency('a "b"\n\\', p99="2s"), caught_up_within("10m")]
    rules = yaml.safe_load(yaml.safe_dump(alert_rules("shop", promises)))["groups"][0]["rules"]
    rules = [rule for rule in rules if rule["alert"] == "RidgelinePromiseBroken"]
    assert rules[0]["expr"] == (
        'ridgeline_promise_kept{application="shop",promise="latency_p99:a \\"b\\"\\n\\\\"} == 0'
    )
    assert rules[1]["annotations"]["summary"] == "shop: caught_up_within is not at most 600 s"
