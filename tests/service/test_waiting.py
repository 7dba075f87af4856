"""The web service of a standby, as probes of a cluster ask it."""

import json
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from ridgeline.api.errors import RidgelineError
from ridgeline.service.options import ServiceOptions
from ridgeline.service.waiting import serve_waiting
from support.cli.windows import make_plan
from support.ports import free_port

PLAN = make_plan()


def ask(server, path, host=None):
    request = urllib.request.Request(f"{server.url}{path}", headers={} if host is None else {"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_a_driver_that_waits_is_alive_and_not_ready_and_leaves_its_port_to_the_run():
    service = ServiceOptions(port=free_port(), token="hunter2")
    for _ in range(2):
        server = serve_waiting(PLAN, service, print)
        try:
            assert server.port == service.port
            assert ask(server, "/healthz") == (200, {"status": "pending"})
            status, body = ask(server, "/readyz")
            assert (status, body["error"]) == (503, "not ready: it starts: nothing is planned yet")
            assert ask(server, "/ws/v2/stram/info")[0] == 401
        finally:
            server.close()


def test_a_driver_that_waits_answers_by_the_name_that_browsers_know():
    server = serve_waiting(PLAN, ServiceOptions(public_url="https://ops.example/orders/"), print)
    try:
        assert [ask(server, "/readyz", host)[0] for host in ("ops.example", "evil.example")] == [503, 403]
    finally:
        server.close()


def test_a_port_in_use_is_refused_before_it_waits():
    server = serve_waiting(PLAN, ServiceOptions(port=free_port()), print)
    try:
        with pytest.raises(RidgelineError, match=rf"port {server.port}"):
            serve_waiting(PLAN, replace(ServiceOptions(), port=server.port), print)
    finally:
        server.close()
