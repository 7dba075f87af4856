"""What pytest says of a test that fails, under the hooks of `tests/conftest.py`."""

import subprocess
import sys

from support.paths import ROOT

_FAILING = '''
import ast, gc, sys

def parse(depth):
    return parse(depth - 1) if depth else ast.parse("a = [b + c]")

def collected(_phase, _info):
    """As a finalizer does whose error is formatted: Python 3.11 parses the lines of a traceback."""
    caller = sys._getframe().f_back
    if caller and caller.f_code is ast.parse.__code__:
        parse(20)

def test_it():
    gc.callbacks.append(collected)
    gc.set_threshold(50)
    assert [%s] == []
'''


def test_a_failing_test_is_reported_whatever_the_garbage_collector_runs_meanwhile(tmp_path):
    """Python 3.11 counts the depth of syntax trees in one place: parsing within parsing ended pytest."""
    file = tmp_path / "test_failing.py"
    file.write_text(_FAILING % ", ".join(f"[{number}]" for number in range(2000)))
    words = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path]
    words += ["-p", "conftest", "-p", "no:cacheprovider", "--basetemp", tmp_path / "temporary", file]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
