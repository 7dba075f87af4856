"""The last lines of operators over HTTP: for those who may see tuples, and without secrets."""

import json
import logging

import pytest
from typer.testing import CliRunner

from ridgeline.api.errors import RidgelineError
from ridgeline.cli.main import app as command
from ridgeline.cli.remote.client import Client
from ridgeline.cli.remote.logs import line_texts
from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.regions.joined_run import joined_plan
from ridgeline.service.origin import driver_lines
from support.service.halves import halves_of, joined
from support.service.living import living
from support.service.watched import serving

SAID = {
    ("numbers", 0): [
        "plain",
        "the password is hunter2",
        "Authorization: Bearer abcdefgh",
        "\x1b[2J\u202e\u2028<b>",
    ],
    ("sums", 0): ["of zero"],
    ("sums", 1): ["of one", "x" * 1200],
    ("sums.output#unifier", 0): ["of the unifier"],
    ("", -1): ["of a thread"],
}


@pytest.fixture(scope="module")
def application():
    log = OperatorLog()
    for (operator, partition), texts in SAID.items():
        level = "" if operator else "\x1b[31mERROR"
        lines = [(1.0 + number, 3, "stdout", level, "", text) for number, text in enumerate(texts)]
        log.add(operator, partition, lines, "h", 7, left_out=2)
    with living(log=log, token="write", read_token="read") as found:
        found.log = log
        yield found


@pytest.fixture
def client(application):
    return Client(application.server.url, "write")


def texts(answer):
    return [line["text"] for line in answer["lines"]]


def test_lines_are_chosen_by_operator_partition_and_container(client):
    assert len(texts(client.post("/log"))) == 9
    assert set(texts(client.post("/log", operator="sums"))) >= {"of zero", "of one", "of the unifier"}
    assert texts(client.post("/log", operator="sums", partition=1, limit=2))[0] == "of one"
    containers = client.get("/physicalPlan/containers")["containers"]
    own = next(one for one in containers if "sums[1]" in one["operators"].values())
    found = client.post("/log", container=own["id"])
    assert "of one" in texts(found)
    assert "of zero" not in texts(found)


def test_secrets_are_masked_and_nothing_controls_a_terminal(client):
    plain, password, header, controls = texts(client.post("/log", operator="numbers"))
    assert (plain, password, header) == ("plain", "the password is ***", "Authorization: ***")
    assert controls == r"\x1b[2J\u202e\u2028<b>"
    (line,) = client.post("/log", operator="numbers", limit=1)["lines"]
    assert (line["operator"], line["partition"], line["windowId"], line["pid"]) == ("numbers", 0, 3, 7)
    long = texts(client.post("/log", operator="sums", partition=1))[1]
    assert long == "x" * 999 + "…"
    (of_a_thread,) = [line for line in client.post("/log")["lines"] if not line["operator"]]
    assert of_a_thread["level"] == r"\x1b[31mERROR"


def test_lines_of_ridgeline_stand_beside_those_of_the_operator(application, client):
    logger = logging.getLogger("ridgeline.observe.event_lines")
    fields = {"application": "numbers", "operator": "sink", "partition": 0, "window": 4}
    with driver_lines(application.log, "numbers"):
        logger.warning("2 tuples skipped", extra=fields)
        logger.warning("of another", extra={**fields, "application": "other"})
    logger.warning("too late", extra=fields)
    (line,) = client.post("/log", operator="sink")["lines"]
    assert (line["level"], line["text"], line["windowId"]) == ("WARNING", "2 tuples skipped", 4)


def test_the_command_shows_them(application, client):
    def logs(*arguments):
        return CliRunner().invoke(command, ["logs", application.server.url, "--token", "write", *arguments])

    shown = logs("--operator", "numbers").stdout.splitlines()
    assert shown[:2] == ["... 2 lines are left out", "1970-01-01T00:00:01.000Z [numbers:0] plain"]
    assert r"\x1b[2J" in shown[-1]
    lines = [
        json.loads(line) for line in logs("--operator", "numbers", "--json", "-n", "2").stdout.splitlines()
    ]
    assert [line["number"] for line in lines] == [3, 4]
    assert "did you mean" in logs("--operator", "number").output


def test_lines_of_regions_are_one_list_in_the_order_of_time(tmp_path):
    watch = joined(halves_of(tmp_path))
    log = OperatorLog()
    said = (("sink", 3.0), ("divide", 1.0), ("orders_to_mail", 2.0), ("orders_queue", 4.0), ("", 5.0))
    for operator, at in said:
        line = at, 0, "stdout", "", "", f"of {operator}"
        log.add(operator, 0 if operator else -1, [line], "elsewhere", 7)
    with serving(watch, joined_plan(watch.regions), token="write", log=log) as served:
        client = Client(f"http://{served.host}:{served.port}", "write")
        found = client.post("/log")["lines"]
        assert [(line["text"], line.get("region")) for line in found] == [
            ("of divide", "shop"),
            ("of orders_to_mail", "mail"),
            ("of sink", "mail"),
            ("of orders_queue", "shop"),
            ("of ", None),
        ]
        assert [line_texts(line)[0].plain.partition(" ")[2] for line in found[:2]] == [
            "[shop divide:0] of divide",
            "[mail orders_to_mail:0] of orders_to_mail",
        ]
        assert texts(client.post("/log", region="mail")) == ["of orders_to_mail", "of sink"]
        assert texts(client.post("/log", region="mail", operator="divide")) == []
        with pytest.raises(RidgelineError, match="there is no region `male`; did you mean `mail`"):
            client.post("/log", region="male")


def test_an_application_of_one_region_says_none(client):
    assert all("region" not in line for line in client.post("/log")["lines"])
    with pytest.raises(RidgelineError, match="the application has one region"):
        client.post("/log", region="mail")
