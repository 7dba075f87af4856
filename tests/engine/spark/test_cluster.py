"""Settings that depend on where Spark runs."""

import os

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
from ridgeline.engine.spark.cores import host_in, local_cores, with_retries
from ridgeline.engine.spark.profiles import check_need, given_by, make_profile
from ridgeline.stram.slot_resources import Need

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


ALL = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,2]", 3),
        ("local[*]", ALL),
        ("local-cluster[2,1,512]", None),
        ("spark://host:7077", None),
    ],
)
def test_the_cores_of_local_spark(master, cores):
    assert local_cores(master) == cores


@pytest.mark.parametrize(
    ("master", "extra", "started"),
    [
        ("local", 0, "local[1,4]"),
        ("local[2]", 0, "local[2,4]"),
        ("local[*]", 0, "local[*,4]"),
        ("local[2,1]", 0, "local[2,1]"),
        ("local[2]", 2, "local[4,4]"),
        ("local[2,1]", 1, "local[3,1]"),
        ("local[*]", 1, f"local[{ALL + 1},4]"),
        ("yarn", 2, "yarn"),
        ("local-cluster[2,1,512]", 2, "local-cluster[2,1,512]"),
    ],
)
def test_local_spark_gets_retries_and_task_slots_for_slots(master, extra, started):
    assert with_retries(master, extra) == started


@pytest.mark.parametrize(
    ("place", "host"),
    [("h7:41000", "h7"), ("192.0.2.2", "192.0.2.2"), ("[::1]:41000", "[::1]"), ("[::1]", "[::1]")],
)
def test_an_executor_that_has_no_port_yet_has_its_host(place, host):
    assert host_in(place) == host


CLUSTER = "spark://host:7077"


@pytest.mark.guide("002", "Resource Limits")
def test_what_a_cluster_gives_depends_on_dynamic_allocation():
    assert given_by("local[2]", DYNAMIC) == set()
    assert given_by("yarn", {}) == {"vcores", "gpus"}
    assert given_by(CLUSTER, DYNAMIC) == {"memory_mb", "vcores", "gpus"}


def test_executors_that_are_too_small_are_an_error_that_says_what_to_give():
    settings = {"spark.executor.cores": "2"}
    check_need(Need(vcores=2), CLUSTER, settings)
    check_need(Need(vcores=4, gpus=2), CLUSTER, DYNAMIC)
    with pytest.raises(
        RidgelineError, match=r"needs 4 cores .* have 2; give `--conf spark.executor.cores=4`"
    ):
        check_need(Need(vcores=4), CLUSTER, settings)
    with pytest.raises(RidgelineError, match=r"needs 1 GPUs .* have 0; give"):
        check_need(Need(gpus=1), CLUSTER, settings)


@pytest.mark.spark
def test_a_profile_is_of_the_task_alone_unless_spark_can_start_executors_for_it(spark_context):
    assert make_profile(Need(), CLUSTER, DYNAMIC) is None
    task = make_profile(Need(vcores=2, gpus=1), CLUSTER, {})
    assert task.getClass().getSimpleName() == "TaskResourceProfile"
    assert "gpu" in str(task.taskResources())
    settings = {**DYNAMIC, "spark.executor.memory": "2g"}
    executor = str(make_profile(Need(512, 2), CLUSTER, settings).executorResources())
    assert "amount: 2560" in executor
    assert "cores -> name: cores, amount: 2" in executor
    assert "amount: 896" in str(make_profile(Need(512), "yarn", settings).executorResources())
