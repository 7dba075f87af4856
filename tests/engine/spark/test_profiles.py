"""Resource profiles of slots, and what clusters cannot give."""

import pytest

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.spark.profiles import check_need, given_by, make_profile
from ridgeline.stram.slot_resources import Need

CLUSTER, DYNAMIC = "spark://host:7077", {"spark.dynamicAllocation.enabled": "true"}


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
