"""What all tests share: one Spark session a process, and helpers that wait instead of sleeping."""

import gc
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import hypothesis
import pytest
from _pytest.doctest import DoctestModule

from support import tiers
from support.accounts import reports
from support.paths import ROOT
from support.waiting import wait_until

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVMs of tests live for seconds: without the second compiler they take two thirds of the CPU."""


hypothesis.settings.register_profile(
    "ridgeline", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
"""No property fails because the machine is slow."""
hypothesis.settings.register_profile(
    "unshrunk",
    hypothesis.settings.get_profile("ridgeline"),
    phases=[phase for phase in hypothesis.Phase if phase != hypothesis.Phase.shrink],
)
"""Of `make test`: to shrink one failing example takes up to five minutes. Its test shrinks it, run alone."""
hypothesis.settings.load_profile("ridgeline")


def pytest_configure():
    """All tests start JVMs that are made for a short life; the machine's configuration is left out."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: tests press Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["RIDGELINE_NO_CONFIG"] = "1"
    for name in [name for name in os.environ if name.startswith("RIDGELINE__")]:
        del os.environ[name]
    of_clusters = " ".join([JAVA_OPTIONS, *class_archive()])
    of_executors = f'"-Dspark.executor.defaultJavaOptions={of_clusters}"'
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{JAVA_OPTIONS} {of_executors}")
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA_OPTIONS)
    os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", of_clusters)


def class_archive():
    """Options by which masters, workers and executors use the drivers' newest archive of classes, if any.

    They start in half the CPU time. A JVM passes over an archive that is not of its class path.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ridgeline")
    try:
        newest = max(folder.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
    except (OSError, ValueError):  # there is none, or one was just removed
        return []
    return [f"-XX:SharedArchiveFile={newest}", "-Xlog:disable", "-Xlog:all=error:stderr"]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are imported, a quarter of the time, nor later in what was imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for no doctests in tests: there are none, and finding that out takes seconds in each process."""
    found = yield
    return [collector for collector in found if not isinstance(collector, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip what CI has no time for, before anything is set up for it."""
    if tiers.is_over():
        pytest.skip(tiers.NOT_REACHED)


def pytest_terminal_summary(terminalreporter):
    """Name each file with tests that CI has not reached."""
    skipped = terminalreporter.stats.get("skipped", [])
    missed = Counter(
        report.nodeid.partition("::")[0] for report in skipped if tiers.NOT_REACHED in str(report.longrepr)
    )
    if missed:
        terminalreporter.section(f"{missed.total()} tests in {len(missed)} files were not reached")
        for path, number in sorted(missed.items()):
            terminalreporter.write_line(f"not reached: {path} ({number})")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    """Show of what a failed test has started what it printed last, and where it is now."""
    report = yield
    if report.failed and call.when != "teardown":
        report.sections += reports.sections(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_makereport")
def pytest_runtest_makereport_undisturbed(call):
    """Collect no garbage while pytest parses the file of a failed test.

    Python 3.11 counts the depth of syntax trees in one place for all threads. A finalizer whose error is
    formatted meanwhile parses too, after which pytest ended with an INTERNALERROR.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if collects:
            gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Say where each test runs. Where several processes share the tests, files that take long begin first."""
    tiers.set_marks(items)
    tiers.check_marks(items)
    if hasattr(config, "workerinput"):
        tiers.in_order(items)


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory):
    """The shared session's `spark.local.dir`: what it writes lies here."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark_context(spark_folder):
    """The one SparkContext of this process: two cores, two more for slots, what streaming needs.

    Tests leave it running.
    """
    from ridgeline.engine.spark.session import SWITCH, start_context

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.local.dir": str(spark_folder),
        "spark.sql.warehouse.dir": str(spark_folder / "warehouse"),
        "spark.executorEnv.PYTHONPATH": str(ROOT),  # workers do not search where the command runs
    }
    needs = {"streaming": True, "local_checkpoint": True, "slots": 2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "off")  # to write an archive takes longer than one start without it
        context = start_context("ridgeline-tests", "local[2]", settings, **needs)
    yield context
    context.stop()


@pytest.fixture(name="wait_until")
def _wait_until():
    """`wait_until(condition, "what for")` returns the first true value; after `seconds` the test fails."""
    return wait_until
