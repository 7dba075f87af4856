"""`breakpoint()` in an operator, under `ridgeline run`."""

import pytest

from support.paths import SUPPORT

TINY = SUPPORT / "cli" / "tiny.py"


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_says_what_to_do_instead(ridgeline_process, environment, tmp_path, monkeypatch):
    (tmp_path / "stops.py").write_text(
        TINY.read_text().replace(
            "        self.total += number.value\n",
            "        breakpoint()\n        self.total += number.value\n",
        )
    )
    monkeypatch.delitem(environment, "PYTHONBREAKPOINT", raising=False)
    process = ridgeline_process("run", "stops.py", "--master", "local[2]", "--quiet", "--no-service")
    _, stderr = process.communicate()
    assert process.returncode == 3
    assert (
        "`breakpoint()` was reached in a worker of Spark, which has no terminal; run the application in "
        "your own process" in stderr
    )
    assert "`run_local(app)`" in stderr
    monkeypatch.setitem(environment, "PYTHONBREAKPOINT", "0")
    process = ridgeline_process("run", "stops.py", "--master", "local[2]", "--quiet", "--no-service")
    _, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")
