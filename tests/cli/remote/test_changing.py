"""The commands that change an application, against one that runs in this process."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ridgeline.service import registry
from support.service.living import living

NOT_THERE = "there is no operator `smus`; did you mean `sums`?"


@pytest.fixture
def app():
    with living() as app:
        entry = registry.own_entry(
            "numbers-1", "numbers", app.server.url, token=app.server.write_token, started=1.0, user="ann"
        )
        registration = registry.register(entry)
        yield app
        registry.remove_own(registration)


def refused(result, *reasons):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for reason in reasons:
        assert reason in result.stderr


def committed(result, what):
    assert (result.exit_code, result.stderr) == (0, "")
    assert " is committed with window " in result.stdout
    assert result.stdout.endswith(f": {what}\n")


def test_a_property_is_set(ridgeline_command, app):
    committed(
        ridgeline_command("set-operator-property", "numbers", "sums", "factor", "-2"),
        "set `sums.factor` to -2",
    )
    assert app.run.plan.logical.operator("sums").operator.factor == -2


@pytest.mark.guide("002", "Dynamic Partitioning")
@pytest.mark.guide("004", "Static vs Dynamic")
def test_an_operator_is_repartitioned(ridgeline_command, app):
    before = app.run.plan
    result = ridgeline_command("repartition", "numbers", "sums", 3, "--dry-run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "sums: 2 -> 3 partitions" in result.stdout
    assert app.run.plan is before
    committed(ridgeline_command("repartition", "numbers", "sums", 3), "repartition `sums` to 3")
    assert len(app.run.plan.logical.operator("sums").divided) == 3
    partitioner = '{"class": "ridgeline.StickyPartitioner", "arguments": ["input"]}'
    result = ridgeline_command("repartition", "numbers", "sums", "--partitioner", partitioner)
    committed(result, "repartition `sums` by `ridgeline.StickyPartitioner`")


@pytest.mark.guide("002", "Dynamic Application Modifications")
def test_a_plan_is_changed_by_commands(ridgeline_command, app):
    lines = """
        # a second sink
        create-operator nowhere ridgeline.testing.NullSink
        create-stream odd sums odd nowhere input
        undo
        add-stream-sink sums nowhere input   # as well
        show-queue
        submit
        """
    result = ridgeline_command("begin-logical-plan-change", "numbers", "--note", "for an hour", typed=lines)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "taken back: add the stream `odd` from `sums.odd` to `nowhere.input`",
        "  1. add the operator `nowhere`, `ridgeline.testing.NullSink`",
        "  2. add the sink `nowhere.input` to the stream `sums`",
    ]
    assert "is committed with window" in lines[3]
    shown = ridgeline_command("changes", "numbers").stdout
    assert "APPLIED" in shown
    assert "for an hour" in shown
    assert app.run.plan.logical.operator("nowhere")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("submit", "line 1: the queue is empty"),
        ("remove-operator", "line 1: `remove-operator` takes `NAME`; got 0 words"),
        ("remove-operator sink\n", "1 edit not submitted; end with the line `submit`"),
        ("remove-operater sink", "there is no command `remove-operater`; did you mean `remove-operator`?"),
        ("set-operator-property sums factor 'x", "line 1: No closing quotation; fix the quotes"),
        ("repartition sums many", "`many` is no number of partitions"),
        ("set-operator-property smus factor 2\nsubmit", f"line 2: `smus.factor`: {NOT_THERE}"),
        ("repartition sums 3\nset-operator-property sums factor x\nsubmit", "`sums.factor`"),
    ],
)
def test_a_wrong_line_ends_a_script_and_nothing_is_changed(ridgeline_command, app, lines, reason):
    before = app.run.plan
    refused(ridgeline_command("begin-logical-plan-change", "numbers", typed=lines), reason)
    assert app.run.plan is before


def test_edits_of_a_file_are_made(ridgeline_command, app, tmp_path):
    edits = [
        {"do": "rename-operator", "name": "sums", "new": "totals"},
        {"do": "repartition", "operator": "totals", "partitions": 4},
    ]
    (tmp_path / "edits.json").write_text(json.dumps(edits))
    result = ridgeline_command("change", "numbers", "--edits", "edits.json", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    row = json.loads(result.stdout)
    assert (row["state"], row["edits"], row["who"].count("@")) == ("APPLIED", edits, 1)
    again = json.dumps({"edits": edits})
    refused(
        ridgeline_command("change", "numbers", "--edits", "-", typed=again), "there is no operator `sums`"
    )


def test_the_difference_to_a_specification_is_made(ridgeline_command, app, tmp_path):
    from ridgeline.plan.spec.form import Form
    from support.plan.specifications import write_specification
    from support.service.living import numbers

    text = write_specification(numbers(), Form.JSON)
    (tmp_path / "same.json").write_text(text)
    refused(
        ridgeline_command("change", "numbers", "--spec", "same.json"),
        "the application is already as the specification says",
    )
    document = json.loads(text)
    document["operators"]["sums"]["attributes"]["partitions"] = 5
    document["operators"]["nowhere"] = {"class": "ridgeline.testing.NullSink"}
    document["streams"]["odd"] = {"from": "sums.odd", "to": "nowhere.input"}
    (tmp_path / "new.json").write_text(json.dumps(document))
    shown = ridgeline_command("change", "numbers", "--spec", "new.json", "--dry-run").stdout
    assert "+ operator nowhere" in shown
    assert "sums: 2 -> 5 partitions" in shown
    result = ridgeline_command("change", "numbers", "--spec", "new.json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [stream.name for stream in app.run.plan.logical.streams] == ["numbers", "sums", "odd"]


@pytest.mark.parametrize(
    "option", [["-D", "sums.factor=2"], ["--attribute", "windows_kept=3"], ["--checkpoint", "x"]]
)
def test_an_application_that_runs_is_given_nothing_beside(ridgeline_command, app, tmp_path, option):
    result = ridgeline_command("plan", "numbers-1", "--spec", f"{tmp_path}/a.yaml", *option)
    refused(result, "`numbers-1` runs: what it was given is known; leave `")
    assert not list(tmp_path.glob("*.yaml"))


def test_a_change_waits_in_the_queue_while_the_application_is_paused(ridgeline_command, app):
    result = ridgeline_command("pause", "numbers", "--note", "a break")
    assert (result.exit_code, result.stdout) == (0, "numbers begins no further window\n")
    result = ridgeline_command("set-operator-property", "numbers", "sums", "factor", 5, "--timeout", 1)
    assert result.exit_code == 1
    assert "change 2 waits" in result.stderr
    result = ridgeline_command("set-operator-property", "numbers", "sums", "factor", 6, "--no-wait")
    assert (result.exit_code, result.stdout) == (0, "change 3 waits to be prepared: set `sums.factor` to 6\n")
    result = ridgeline_command("changes", "numbers", "--withdraw", 2)
    assert (result.exit_code, result.stdout) == (0, "change 2 is withdrawn: set `sums.factor` to 5\n")
    refused(ridgeline_command("changes", "numbers", "--withdraw", 1), "change 1 does not wait any more")
    assert ridgeline_command("resume", "numbers").stdout == "numbers begins windows again\n"
    committed(
        ridgeline_command("set-operator-property", "numbers", "numbers", "per_window", 4),
        "set `numbers.per_window` to 4",
    )
    assert app.run.plan.logical.operator("sums").operator.factor == 6
    rows = json.loads(ridgeline_command("changes", "numbers", "--json").stdout)["changes"]
    assert [row["state"] for row in rows] == ["APPLIED", "WITHDRAWN", "APPLIED", "APPLIED", "APPLIED"]


class _CutOff(BaseHTTPRequestHandler):
    """Says that it is there; a POST ends it before it has answered."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self):
        self.server.socket.close()
        self.close_connection = True
        threading.Thread(target=self.server.shutdown).start()

    def log_message(self, *_):
        """Nothing: the test looks at what the command prints."""


@pytest.mark.parametrize("options", [[], ["--no-wait"], ["--json"]])
@pytest.mark.parametrize("command", [["stop"], ["kill", "--yes"]])
def test_an_application_may_end_before_it_has_answered(ridgeline_command, command, options):
    with HTTPServer(("127.0.0.1", 0), _CutOff) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        entry = registry.own_entry(
            "cut-1", "cut", f"http://127.0.0.1:{server.server_port}", token="t", started=1.0, user="ann"
        )
        registration = registry.register(replace(entry, process=""))
        result = ridgeline_command(*command, "cut", *options)
        registry.remove_own(registration)
        serving.join()
    assert (result.exit_code, result.stderr) == (0, "")
    if options == ["--json"]:
        assert json.loads(result.stdout)["state"] == "APPLIED"
    else:
        assert result.stdout == "cut has ended\n"


@pytest.mark.parametrize("command", [["stop"], ["kill", "--yes"]])
def test_what_does_not_run_cannot_be_ended(ridgeline_command, command):
    refused(ridgeline_command(*command, "nobody"), "no application")


def test_results_of_a_query_are_shown_with_what_they_cost(ridgeline_command, app, wait_until):
    def names():
        return {one.name for one in app.run.plan.logical.operators}

    before = names()
    query = ("query", "numbers", "select count(*) as n from numbers")
    result = ridgeline_command(*query, "--every", "4ms", "--times", 2)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("6 tuples, 1 rows") == 2
    wait_until(lambda: names() == before, "the query is removed")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("repartition", "numbers", "smus", 2), NOT_THERE),
        (("repartition", "numbers", "sums", 0), "greater than or equal to 1"),
        (("repartition", "numbers", "sums"), "neither `partitions` nor `partitioner` is given"),
        (("repartition", "numbers", "sums", 2, "--partitioner", "os.system"), "is no `Partitioner`"),
        (("repartition", "numbers", "sums", 2, "--partitioner", "{"), "`--partitioner` is no JSON"),
        (("repartition", "other", "sums", 2), "no application `other` is running"),
        (("set-operator-property", "numbers", "sums", "fctor", "2"), "did you mean `factor`?"),
        (("set-operator-property", "numbers", "sums", "factor", "x"), "`sums.factor`"),
        (("set-operator-property", "numbers", "sums", "factor"), "Missing argument 'VALUE'"),
        (("set-operator-attribute", "numbers", "sums", "memory", "2"), "memory_mb"),
        (("set-operator-attribute", "numbers", "sums", "x", "2", "--port", "inptu"), "inptu"),
        (("change", "numbers"), "give `--spec FILE` or `--edits FILE`, one of them"),
        (("change", "numbers", "--spec", "none.json"), "there is no file `none.json`"),
        (("change", "numbers", "--spec", "none.txt"), "`none.txt` is no specification"),
        (("change", "numbers", "--edits", "none.json"), "`none.json` cannot be read"),
        (("changes", "numbers", "--withdraw", 7), "there is no change 7"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(ridgeline_command, app, words, reason):
    before = app.run.plan
    result = ridgeline_command(*words)
    assert reason in " ".join(result.stderr.split())
    assert result.exit_code in {1, 2}
    if "other" not in words:
        assert result.exit_code == 2
    assert app.run.plan is before
