import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_workers_do_not_search_where_the_command_runs(spark_context):
    def look(_index, _records):
        import sys

        yield sys.path, str(Path.cwd()), os.environ["PYTHONPATH"], os.environ.get("PYTHONSAFEPATH")

    found = spark_context.parallelize(range(1), 1).mapPartitionsWithIndex(look).collect()
    [(path, folder, told, setting)] = found
    assert folder == str(Path.cwd())
    assert "" not in path
    assert path.count(folder) == told.split(os.pathsep).count(folder)  # tests name it themselves
    assert setting is None
