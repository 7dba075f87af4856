"""Write a checkpoint for later versions to open: `python tests/support/engine/write_recorded.py FILE.tar.xz`.

It runs the application of `support.engine.recorded` on Spark twice, up to the middle. One run is stopped
after a window; the other one kills itself between stage and commit of a window. The archive has the
checkpoint, the outputs and the input of each. Of the first it has the event log too, and what
`ridgeline replay --json` made of it.

Inputs and outputs keep their absolute paths in the checkpoint. So both runs read and write in `HOME`, and a
test that opens the archive makes a link of that name (`at_home`). Nothing in the archive was changed after
the run.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
HOME = Path("/tmp/ridgeline-recorded")
"""Where inputs and outputs lay when they were recorded."""
STOPPED, KILLED = "stopped", "killed"
MODULES = ("support/engine/recorded.py", "support/engine/write_recorded.py", "support/waiting.py")


@contextlib.contextmanager
def at_home(folder):
    """Let `HOME` be a link to a folder. Others who do this at the same time wait."""
    with Path(f"{HOME}-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        HOME.unlink(missing_ok=True)  # one that a killed process has left
        HOME.symlink_to(folder)
        try:
            yield
        finally:
            HOME.unlink()


def run(folder, kind):
    """Run the application up to the middle, with two changes and a recording."""
    from ridgeline.engine.driver.checkpoint.journal import Journal
    from ridgeline.engine.state import keyed_segments
    from ridgeline.operators import FileOutput
    from support.engine.recorded import STOPPED_AFTER, Audit, application, write_lines
    from support.waiting import wait_until

    write_lines(Path(folder))
    keyed_segments.SEGMENT_KEYS = 20  # so that few keys lie in segments
    append = Journal.append

    def die(self, manifest, changes):
        if manifest.window_id == STOPPED_AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
        return append(self, manifest, changes)

    if kind == KILLED:
        Journal.append = die
    handle = application(str(HOME)).start(
        "local[2]",
        checkpoint=str(Path(folder, "checkpoint")),
        windows=STOPPED_AFTER if kind == STOPPED else None,
        event_log=str(Path(folder, "events.jsonl")) if kind == STOPPED else None,
        quiet=True,
    )
    wait_until(lambda: handle.windows().num_rows > 4, "windows before the change")
    with handle.plan_change(note="recorded") as plan:
        plan.repartition("watch", 3)
        audit = plan.add_operator("audit", Audit())
        plan.add_sink("readings", audit.readings)
        later = plan.add_operator("later", FileOutput(path=f"{HOME}/outputs/later", format="jsonl"))
        plan.add_sink("amounts", later.input)
    wait_until(lambda: handle.windows().num_rows > 8, "windows before the recording")
    handle.start_recording("watch", "readings")
    handle.wait()


def record(folder, kind):
    """Run the application in a process of its own, and keep what `replay` says about it."""
    folder.mkdir(mode=0o700)
    modules = folder.with_name("modules")  # all that is beside the application would be in the checkpoint
    for name in MODULES:
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TESTS / name, modules / name)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(modules), str(TESTS.parent / "src")]),
        "RIDGELINE_NO_CONFIG": "1",
    }
    with at_home(folder):
        code = f"from support.engine import write_recorded; write_recorded.run({str(folder)!r}, {kind!r})"
        ended = subprocess.run([sys.executable, "-c", code], env=environment, cwd=folder, check=False)
        assert ended.returncode == (0 if kind == STOPPED else -signal.SIGKILL), ended
    if kind == KILLED:
        return
    command = [sys.executable, "-m", "ridgeline", "replay", str(folder / "events.jsonl"), "--json"]
    figures = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    (folder / "figures.json").write_text(json.dumps(json.loads(figures), indent=1) + "\n")


def main(archive):
    with tempfile.TemporaryDirectory() as temporary:
        for kind in (STOPPED, KILLED):
            record(Path(temporary, kind), kind)
        pack(Path(temporary), archive)


def pack(folder, archive):
    """Both runs as they are, without the times of files: they would be a third of the archive."""

    def plain(entry):
        entry.mtime, entry.uname, entry.gname = 0, "", ""
        return entry

    with tarfile.open(archive, "w:xz", format=tarfile.GNU_FORMAT) as tar:
        for kind in (STOPPED, KILLED):
            tar.add(folder / kind, kind, filter=plain)


if __name__ == "__main__":
    main(sys.argv[1])
