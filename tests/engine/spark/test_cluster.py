"""Settings that depend on where Spark runs."""

import pytest

from ridgeline import RidgelineError
from ridgeline.engine.spark.cluster import (
    SOCKET_FOLDER,
    SOCKETS,
    allocation_settings,
    check_speculation,
    failure_settings,
    log_settings,
    prints_place,
    slots_to_come,
    socket_settings,
)

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
LONG = "/scratch/" + "x" * 60


@pytest.mark.guide("002", "YARN")
@pytest.mark.parametrize(
    ("master", "given", "environment", "settings"),
    [
        ("local[2]", {}, {}, {}),
        ("spark://host:7077", {}, {}, {}),
        ("yarn", {}, {}, {SOCKET_FOLDER: "/tmp"}),
        ("yarn", {SOCKET_FOLDER: "/run/me"}, {}, {}),
        ("yarn", {SOCKETS: "false"}, {}, {}),
        (
            "local[2]",
            {"spark.driver.extraJavaOptions": f"-Xmx1g -Djava.io.tmpdir={LONG}"},
            {},
            {SOCKET_FOLDER: "/tmp"},
        ),
        ("local[2]", {"spark.driver.extraJavaOptions": "-Djava.io.tmpdir=/var/tmp"}, {}, {}),
        (
            "k8s://host",
            {"spark.executor.extraJavaOptions": f"-Djava.io.tmpdir={LONG}"},
            {},
            {SOCKET_FOLDER: "/tmp"},
        ),
        ("local[2]", {}, {"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={LONG}"}, {SOCKET_FOLDER: "/tmp"}),
    ],
)
def test_sockets_lie_where_their_paths_are_short_enough(master, given, environment, settings):
    assert socket_settings(master, given, environment) == settings


def test_without_a_short_folder_there_is_tcp(monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert socket_settings("yarn", {}, {}) == {SOCKETS: "false"}


def test_executors_of_a_cluster_log_errors_unless_the_user_says_otherwise():
    assert log_settings({}, submitted=False) == {"spark.executor.syncLogLevel.enabled": "true"}
    assert log_settings({}, submitted=True)["spark.log.level"] == "ERROR"
    for own in (
        {"spark.executor.extraJavaOptions": "-Dlog4j2.configurationFile=mine"},
        {"spark.log.level": "INFO"},
    ):
        assert log_settings(own, submitted=True) == {}


@pytest.mark.parametrize(
    ("given", "widest", "fewest", "slots"),
    [
        ({}, 12, None, 0),
        (DYNAMIC, 12, "12", 12),
        ({**DYNAMIC, "spark.executor.cores": "4"}, 12, "3", 12),
        ({**DYNAMIC, "spark.executor.cores": "4", "spark.task.cpus": "2"}, 12, "6", 12),
        ({**DYNAMIC, "spark.executor.cores": "4", "spark.dynamicAllocation.maxExecutors": "2"}, 12, "2", 8),
        (
            {
                **DYNAMIC,
                "spark.dynamicAllocation.minExecutors": "1",
                "spark.dynamicAllocation.maxExecutors": "5",
            },
            12,
            None,
            5,
        ),
        ({**DYNAMIC, "spark.executor.cores": "8"}, 3, "1", 3),
    ],
)
def test_with_dynamic_allocation_the_widest_stage_is_asked_for(given, widest, fewest, slots):
    assert allocation_settings(given, widest).get("spark.dynamicAllocation.minExecutors") == fewest
    assert slots_to_come(given, widest) == slots


def test_where_prints_are():
    assert prints_place("local[2]", "app-1") == ""
    assert prints_place("yarn", "application_1_1") == "`yarn logs -applicationId application_1_1`"
    assert "spark-app-selector=spark-1," in prints_place("k8s://https://h:6443", "spark-1")
    assert prints_place("spark://h:7077", "app-1").startswith("the workers' folders `work/app-1/*/stderr`")


SPECULATING = {"spark.speculation": "true", "spark.speculation.task.duration.threshold": "60s"}


def test_tasks_that_spark_would_copy_are_refused():
    with pytest.raises(
        RidgelineError, match=r"threshold=60s` Spark starts long tasks twice; .*; leave the threshold"
    ):
        check_speculation("yarn", SPECULATING)


@pytest.mark.parametrize(
    ("master", "settings"),
    [
        ("yarn", {}),
        ("yarn", {"spark.speculation": "true"}),
        ("yarn", {**SPECULATING, "spark.speculation": "false"}),
        ("local[4]", SPECULATING),
    ],
)
def test_spark_copies_no_slot_otherwise(master, settings):
    check_speculation(master, settings)


def test_lost_executors_of_months_do_not_end_an_application():
    """Spark counts them where it asks for executors itself: two for each one are enough by default."""
    assert failure_settings("spark://host:7077") == failure_settings("local[2]") == {}
    assert failure_settings("yarn") == failure_settings("k8s://https://host")
    assert int(failure_settings("yarn")["spark.executor.maxNumFailures"]) >= 1000
