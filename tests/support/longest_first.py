"""Which files of tests begin first, so that processes that share the files end at about the same time.

With `--dist loadfile --no-loadscope-reorder` processes take whole files in this order. A file that takes
minutes must not be the last one that a process takes.
"""

from support.paths import ROOT

SECONDS = {
    "tests/crash/test_kill_driver.py": 260,
    "tests/kafka/test_verdict.py": 240,
    "tests/examples/test_on_local_cluster.py": 230,
    "tests/kafka/test_kills.py": 170,
    "tests/engine/spark/test_spark_s3.py": 160,
    "tests/simulation/test_seeds.py": 150,
    "tests/engine/driver/test_spark_source_asking.py": 130,
    "tests/cli/running/test_run_on_spark.py": 130,
    "tests/crash/test_kill_query.py": 120,
    "tests/crash/test_kill_host.py": 100,
    "tests/docs/test_blocks.py": 90,
    "tests/engine/driver/test_spark_folders.py": 70,
    "tests/crash/test_kill_workers.py": 70,
    "tests/examples/test_on_spark.py": 60,
    "tests/operators/test_file_output_s3.py": 60,
    "tests/cli/running/test_spark_submit.py": 55,
    "tests/crash/test_kill_slots.py": 50,
    "tests/examples/test_yahoo_finance.py": 25,
    "tests/crash/test_signals.py": 40,
    "tests/crash/test_disk.py": 40,
    "tests/service/test_large.py": 40,
    "tests/cli/running/test_breakpoint.py": 40,
    "tests/cli/running/test_temporary_checkpoint.py": 40,
    "tests/cli/running/test_wrong_python.py": 30,
    "tests/crash/test_kill_big_state.py": 25,
    "tests/simulation/test_steps.py": 25,
    "tests/cli/asking/test_progress_on_spark.py": 25,
    "tests/crash/test_two_drivers.py": 20,
    "tests/cli/test_lazy_imports.py": 20,
}
"""About how long files take on two cores, those above 15 seconds: `pytest --durations=0` shows it."""


def longest_first(items):
    """Sort collected tests by how long their files take; tests of a file stay together, in their order.

    Of the others, files with tests on Spark come first: they mostly wait, and the rest fills the cores.
    """
    on_spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(
        key=lambda item: (-SECONDS.get(item.path.relative_to(ROOT).as_posix(), 0), item.path not in on_spark)
    )
