"""A store of a checkpoint (S3) that answers each request a second late: windows continue, nothing is lost."""

import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from support import services
from support.crash.on_store import OnStore
from support.depth import deeper
from support.jars import jars
from support.services.fixtures import ready

pytestmark = [
    pytest.mark.crash,
    pytest.mark.spark,
    pytest.mark.slow,
    deeper,
]


class Late:
    """A way to a server on which every piece that comes back arrives `seconds` later."""

    def __init__(self, endpoint):
        self.seconds, self._to = 0.0, (urlsplit(endpoint).hostname, urlsplit(endpoint).port)
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listens.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            here, _ = self._listens.accept()
            there = socket.create_connection(self._to)
            for ends in ((here, there, False), (there, here, True)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source, target, is_answer):
        try:
            while data := source.recv(1 << 20):
                if is_answer:
                    time.sleep(self.seconds)
                target.sendall(data)
        except OSError:
            pass
        finally:
            for one in (source, target):
                one.close()


def test_a_store_that_answers_a_second_late(start, wait_until, tmp_path):
    jars("s3")
    store = ready(services.seaweedfs)
    late = Late(store.direct_endpoint)

    class Run(OnStore):
        def start(self, log):
            self._endpoint = late.endpoint
            super().start(log)

    run = Run(start, wait_until, store, tmp_path)
    run.continues()
    late.seconds = 1.0
    began = time.monotonic()
    run.continues()
    run.continues()
    print(f"with an answer a second late: {20 / (time.monotonic() - began):.2f} windows a second")
    run.finish()
