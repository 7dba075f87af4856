"""The last events of a running application, over REST."""

from __future__ import annotations

import json

from support.service.asking import ask
from support.service.living import living
from support.waiting import wait_until

PATH = "/ws/v2/stram/debugDump"


def test_it_has_the_events_of_the_run_without_its_secrets():
    with living() as app:
        wait_until(lambda: app.run.master.committed >= 3, "some windows")
        dump = ask(app.server, PATH)[1]
        assert (dump["application"], dump["fault"]) == ("numbers", None)
        assert dump["committed"] >= 3
        happened = {one["event"] for one in dump["events"]}
        assert {"WindowDue", "ContainerReported", "ManifestWritten"} <= happened
        assert "hunter2" not in json.dumps(dump)
