"""The last events of a running application: over REST, and by the command."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from ridgeline.cli.main import app as command
from support.service.asking import ask
from support.service.living import living
from support.waiting import wait_until

PATH = "/ws/v2/stram/debugDump"


def test_it_has_the_events_of_the_run_without_its_secrets(tmp_path):
    with living() as app:
        wait_until(lambda: app.run.master.committed >= 3, "some windows")
        dump = ask(app.server, PATH)[1]
        assert (dump["application"], dump["fault"]) == ("numbers", None)
        assert dump["committed"] >= 3
        happened = {one["event"] for one in dump["events"]}
        assert {"WindowDue", "ContainerReported", "ManifestWritten"} <= happened
        assert "hunter2" not in json.dumps(dump)

        file = tmp_path / "dump.json"
        result = CliRunner().invoke(command, ["debug-dump", app.server.url, "-o", str(file)])
        assert result.exit_code == 0, result.output
        written = json.loads(file.read_text())
        assert written["committed"] >= dump["committed"]
        assert result.stderr == f"{len(written['events'])} events and what followed are in `{file}`\n"
        result = CliRunner().invoke(command, ["debug-dump", "--url", app.server.url])
        assert json.loads(result.stdout)["application"] == "numbers"
        result = CliRunner().invoke(command, ["debug-dump", app.server.url, "-o", str(tmp_path)])
        assert result.exit_code == 2
        assert "cannot be written: Is a directory" in result.stderr
