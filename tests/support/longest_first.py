"""Which files of tests begin first, so that processes that share the files end at about the same time.

With `--dist loadfile --no-loadscope-reorder` processes take whole files in this order. A file that takes
minutes must not be the last one that a process takes.
"""

from support.paths import ROOT

SECONDS = {
    "tests/crash/test_kill_driver.py": 260,
    "tests/examples/test_on_local_cluster.py": 230,
    "tests/kafka/test_verdict.py": 200,
    "tests/kafka/test_kills.py": 170,
}
"""How long files take on two cores, those above 15 seconds; `pytest --durations=0` shows it."""

if missing := [path for path in SECONDS if not (ROOT / path).exists()]:
    message = f"`longest_first.SECONDS` names files that do not exist: {', '.join(missing)}; correct them"
    raise FileNotFoundError(message)


def longest_first(items):
    """Sort collected tests by how long their files take; tests of a file stay together, in their order.

    Of the others, files with tests on Spark come first: they mostly wait, and the rest fills the cores.
    """
    on_spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(
        key=lambda item: (-SECONDS.get(item.path.relative_to(ROOT).as_posix(), 0), item.path not in on_spark)
    )
