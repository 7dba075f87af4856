"""Applications started from Python, on Spark."""

import json
import socket
import threading
import urllib.request

import pyarrow as pa
import pytest

from ridgeline import Application, ChangeError, OperatorError, RidgelineError, ValidationError
from ridgeline.service import registry
from ridgeline.service.history.tail import read_event_log, replay
from ridgeline.testing import END_WINDOW, CountSink
from support.engine.applications import FailingSum, WaitingSum, list_application, sum_application
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)


def test_a_notebook_watches_an_application(spark_context, tmp_path, wait_until):
    app = sum_application(WaitingSum(folder=str(tmp_path)))
    app.window = "50ms"
    handle = app.start(
        context=spark_context,
        checkpoint=str(tmp_path / "checkpoint"),
        event_log=str(tmp_path / "log.jsonl"),
        quiet=True,
    )

    wait_until(lambda: (tmp_path / "waits").exists() or handle.state != "RUNNING", "a window that waits")
    assert [entry.url for entry in registry.running()] == [handle.url]
    assert registry.find(handle.name).checkpoint == handle.checkpoint == str(tmp_path / "checkpoint")
    assert get(f"{handle.url}/ws/v2/stram/info")["name"] == handle.name
    wait_until(lambda: handle.windows().num_rows, "a window")
    assert isinstance(handle.latency(), pa.Table)
    assert handle.critical_path()["operator"].to_pylist()[-1] == "store"
    with pytest.raises(KeyError, match="`stor` is not an operator of this application; did you mean `store`"):
        handle.record_age("stor")
    with pytest.raises(ChangeError, match=r"`add_operator` was called on .*, which runs; .*plan_change"):
        app.add_operator("more", CountSink())
    with pytest.raises(ChangeError, match="`add_stream` was called on"):
        app.add_stream("more", app.operators[0].operator, app.operators[0].operator)
    (tmp_path / "go").touch()
    outcome = handle.wait(PATIENCE_SECONDS)

    assert outcome.ended
    assert handle.state == "FINISHED"
    assert handle.watch.info()["stats"]["windowsCommitted"] == outcome.windows_committed
    assert repr(handle) == f"<{handle.name}: FINISHED, window 9 committed, {handle.url}>"
    assert handle.windows()["window_id"].to_pylist() == list(range(10))
    assert registry.running() == []
    with pytest.raises(OSError, match=r"refused|reset"):
        get(handle.url)
    replayed = replay(str(tmp_path / "log.jsonl"))
    assert replayed.windows() == handle.watch.windows()
    assert replayed.overview() == {**handle.watch.overview(), "at": replayed.now()}


def test_it_stops_after_the_window_that_runs(spark_context, tmp_path, wait_until):
    with forever().start(
        context=spark_context, checkpoint=str(tmp_path / "checkpoint"), port=None, quiet=True
    ) as handle:
        assert handle.url is None
        assert registry.running() == []
        wait_until(lambda: handle.windows().num_rows, "a window")
        with pytest.raises(TimeoutError, match="`lists` still runs after"):
            handle.wait(0.1)
        assert handle.state == "RUNNING"

    assert handle.state == "STOPPED"
    assert not handle.stop().ended
    assert handle.wait().windows_committed == handle.windows().num_rows


def forever() -> Application:
    app = list_application([item for _ in range(100_000) for item in ((1,), END_WINDOW)])
    app.name, app.window = "lists", "50ms"
    return app


def test_an_error_in_the_block_is_not_hidden(spark_context, tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        forever().start(context=spark_context, checkpoint=str(tmp_path / "c"), quiet=True) as handle,
    ):
        raise ZeroDivisionError
    assert handle.state == "STOPPED"


def test_what_keeps_an_application_from_starting_is_raised_at_once(spark_context, tmp_path):
    with pytest.raises(ValidationError):
        Application("empty").start(context=spark_context)
    with pytest.raises(RidgelineError, match=r"event log `.*log.txt` must end in"):
        sum_application().start(context=spark_context, event_log=str(tmp_path / "log.txt"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        log = tmp_path / "log.jsonl"
        with pytest.raises(RidgelineError, match=f"port {port} of `127.0.0.1` is in use"):
            sum_application().start(context=spark_context, port=port, event_log=str(log))
        assert not log.exists()  # nothing is in the way of the next try
    threads = {thread.name for thread in threading.enumerate()}
    assert not threads & {"ridgeline-windows", "ridgeline-heartbeats"}


def test_a_failure_is_raised_by_who_waits_with_the_users_line(spark_context, tmp_path):
    log = tmp_path / "log.jsonl"
    handle = sum_application(FailingSum(bad=7), recovery_attempts=0).start(
        context=spark_context, checkpoint=str(tmp_path / "checkpoint"), event_log=str(log), quiet=True
    )
    with pytest.raises(OperatorError) as caught:
        handle.wait(PATIENCE_SECONDS)
    text = str(caught.value)
    for part in ("ValueError: cannot add 7", "applications.py", "raise ValueError(f"):
        assert part in text
    assert "delivery.py" not in text
    assert "delivery.py" in caught.value.failure.traceback
    with pytest.raises(OperatorError):
        handle.stop()

    assert handle.state == "FAILED"
    *_, last = read_event_log(str(log))
    assert last.outcome == "failed"
    assert "operator `" in last.reason


def test_applications_share_the_spark_of_the_process(spark_context, wait_until):
    first, second = forever().start(port=None), sum_application().start(port=None)
    assert second.wait(PATIENCE_SECONDS).ended
    before = first.watch.info()["stats"]["windowsCommitted"]
    wait_until(
        lambda: first.watch.info()["stats"]["windowsCommitted"] > before or first.state != "RUNNING",
        "it to go on when the other has ended",
    )
    assert first.state == "RUNNING"
    assert len(second.collected("store")) == 10
    first.stop(PATIENCE_SECONDS)
    assert spark_context.parallelize([1]).count() == 1, "somebody else's context stays"
    with pytest.raises(RidgelineError, match=r"on `local\[4,4\]`, .*; `local\[7\]` was given: leave it out"):
        sum_application().start("local[7]", port=None)
    with pytest.raises(RidgelineError, match=r"with another `spark.x` or none"):
        sum_application().start(conf={"spark.x": "1"}, port=None)
