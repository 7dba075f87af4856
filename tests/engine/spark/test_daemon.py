import os
import subprocess
import sys
import zipfile
from pathlib import Path

import ridgeline
from support.waiting import PATIENCE_SECONDS


def run(code):
    """What a process of its own does with the code."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ridgeline.__file__).parent.parent)}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=environment
    )


def test_a_worker_whose_connection_is_closed_ends_without_a_word():
    code = """
from ridgeline.engine.spark.daemon import quietly
def worker(number):
    if number:
        return number
    raise BrokenPipeError
print(quietly(worker)(3), flush=True)
quietly(worker)(0)
"""
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (1, "3\n", "")


def test_workers_read_no_archive_anew_and_still_import_from_it(tmp_path):
    """What pyspark does in each new process: `importlib.invalidate_caches`."""
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("first", "second", "package/__init__", "package/third", "package/fourth"):
            file.writestr(f"{name}.py", "")
    code = f"""
import importlib, sys, zipimport
sys.path.insert(0, {str(archive)!r})
import first, package.third
from ridgeline.engine.spark.daemon import forget_archives, preload
preload("second")
forget_archives()
read = zipimport._read_directory
zipimport._read_directory = lambda path: print("read", path, flush=True) or read(path)
importlib.invalidate_caches()
import package.fourth
print("second" in sys.modules, "pandas" in sys.modules, package.fourth.__name__)
"""
    done = run(code)
    assert (done.returncode, done.stdout) == (0, "True True package.fourth\n"), done.stderr


def test_pyspark_warns_nobody_of_pandas_3():
    """The check that PySpark makes in the driver and in each worker, with the version that it warns of."""
    code = """
import ridgeline.engine.spark.daemon
import pandas
from pyspark.sql.pandas.utils import require_minimum_pandas_version
pandas.__version__ = "3.1.1"
require_minimum_pandas_version()
"""
    done = run(code)
    assert (done.returncode, done.stderr) == (0, "")
