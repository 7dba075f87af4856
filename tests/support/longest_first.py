"""Which files of tests begin first, so that processes that share the files end at about the same time.

With `--dist loadfile --no-loadscope-reorder` processes take whole files in this order. A file that takes
minutes must not be the last one that a process takes.
"""

from support.paths import ROOT

SECONDS = {
    "tests/simulation/test_seeds.py": 700,
    "tests/crash/test_kill_driver.py": 500,
    "tests/kafka/test_kills.py": 370,
    "tests/kafka/test_verdict.py": 330,
    "tests/crash/test_kill_host.py": 290,
    "tests/crash/test_cut_network.py": 600,
    "tests/crash/test_nothing_is_left.py": 90,
    "tests/cli/running/test_run_on_spark.py": 280,
    "tests/engine/spark/test_spark_s3.py": 270,
    "tests/docs/test_blocks.py": 190,
    "tests/engine/driver/slots/test_executor.py": 185,
    "tests/examples/test_yahoo_finance.py": 160,
    "tests/cli/running/test_temporary_checkpoint.py": 125,
    "tests/cli/running/test_wrong_python.py": 120,
    "tests/crash/test_kill_slots_changing.py": 130,
    "tests/crash/test_packed_environment.py": 120,
    "tests/operators/test_file_output_s3.py": 110,
    "tests/crash/test_kill_slots.py": 105,
    "tests/cli/running/test_spark_submit.py": 100,
    "tests/engine/driver/test_spark_folders.py": 95,
    "tests/engine/driver/test_spark_source_asking.py": 95,
    "tests/service/test_large.py": 90,
    "tests/engine/exchange/test_cut_sockets.py": 85,
    "tests/crash/test_yarn.py": 150,
    "tests/crash/test_kill_query.py": 90,
    "tests/crash/test_kill_workers.py": 85,
    "tests/crash/test_kill_around_change.py": 80,
    "tests/typing/test_typing.py": 80,
    "tests/examples/test_on_spark.py": 80,
    "tests/crash/test_signals.py": 75,
    "tests/examples/test_on_local_cluster.py": 75,
    "tests/operators/test_event_time.py": 75,
    "tests/engine/driver/test_spark_slot_feed.py": 70,
    "tests/service/test_handle.py": 65,
    "tests/cli/running/test_breakpoint.py": 65,
    "tests/engine/process/test_spark_hostile.py": 60,
    "tests/crash/test_disk.py": 55,
    "tests/crash/test_kill_notebook.py": 55,
    "tests/crash/test_kill_big_state.py": 55,
    "tests/cli/remote/test_progress_on_spark.py": 50,
    "tests/cli/test_lazy_imports.py": 50,
    "tests/engine/driver/test_spark_soak.py": 110,
    "tests/engine/driver/test_converting_crashes.py": 50,
    "tests/engine/driver/test_spark_long_run.py": 45,
    "tests/crash/test_slots_end.py": 40,
    "tests/crash/test_kill_driver_changing.py": 35,
    "tests/engine/driver/test_spark_phases.py": 35,
    "tests/simulation/test_steps.py": 30,
    "tests/engine/exchange/test_spark_partitions.py": 30,
    "tests/engine/driver/test_spark_run.py": 25,
    "tests/engine/spark/test_spark_byte_rdds.py": 25,
    "tests/cli/running/test_spark_logs.py": 20,
    "tests/crash/test_two_drivers.py": 20,
    "tests/engine/driver/test_spark_source.py": 20,
    "tests/plan/test_random_edits.py": 18,
    "tests/testing/test_random_live_edits.py": 17,
}
"""About how long files take on two cores, four at a time: `pytest --durations=0` shows it."""


def longest_first(items):
    """Sort collected tests by how long their files take; tests of a file stay together, in their order.

    Of the others, files with tests on Spark come first: they mostly wait, and the rest fills the cores.
    """
    on_spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(
        key=lambda item: (-SECONDS.get(item.path.relative_to(ROOT).as_posix(), 0), item.path not in on_spark)
    )
