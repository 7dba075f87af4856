"""Who may do what: roles by a tokens file, tried against a real service with an application that runs."""

import contextlib
import http.client
import itertools
import json
import os
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ridgeline import operators
from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import Operator, operator_type
from ridgeline.plan.edits import SetProperty
from ridgeline.service.access.access import Access, TrustedProxy
from ridgeline.service.access.audit import BURST, AuditLog
from ridgeline.service.access.edit_roles import role_of_edits
from ridgeline.service.access.roles import Role
from ridgeline.service.access.rules import Rule
from ridgeline.service.access.rules_file import (
    RulesFile,
    add_rule,
    new_token,
    read_rules_file,
    token_rule,
)
from ridgeline.service.page.session import NAMED_SECONDS
from support.service.asking import BASE, ask
from support.service.living import living
from support.waiting import PATIENCE_SECONDS

GOOD = {"do": "set-property", "operator": "sums", "property": "factor", "value": 2}
ADD = {"do": "add-operator", "name": "more", "spec": {"class": "support.service.living.Words"}}

CODE = {"class": "os.system"}


def sums(do):
    """The beginning of an edit of the operator `sums`."""
    return {"do": do, "operator": "sums"}


class File:
    """A tokens file with a token for each role."""

    def __init__(self, folder):
        self.path = str(folder / "tokens")
        self.tokens = {one.word: self.add(one.word, one.word) for one in Role}

    def remove(self, name):
        lines = Path(self.path).read_text().splitlines(keepends=True)
        Path(self.path).write_text("".join(one for one in lines if not one.startswith(f"{name} ")))

    def add(self, name, role, applications=(), expires=None):
        token = new_token()
        rule = Rule(name, Role.of(role), b"", tuple(applications), expires)
        add_rule(self.path, token_rule(name, token, rule))
        return token

    def line(self, subject, role):
        add_rule(self.path, Rule(subject, Role.of(role)))


def info(app, token=None, **headers):
    """The status of what all who have a role may read."""
    return ask(app.server, f"{BASE}/info", token=token, **headers)[0]


@pytest.fixture
def said():
    return []


@pytest.fixture
def file(tmp_path):
    return File(tmp_path)


@pytest.fixture
def app(file, said, tmp_path):
    audit = AuditLog(str(tmp_path / "audit.jsonl"), "numbers", said.append)
    proxy = TrustedProxy.of("X-Forwarded-User,X-Forwarded-Groups", ["127.0.0.0/8"])
    access = Access("numbers", RulesFile(file.path, said.append), proxy, say=said.append)
    with living(access=access, audit=audit) as found:
        yield found
    audit.close()


def test_every_endpoint_and_method_has_a_role(app):
    """An endpoint without one is refused to all: whoever adds one says who may ask."""
    document = ask(app.server, f"{BASE}/openapi.json", token=app.web.state.access.write_token)[1]
    without = [
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method, one in methods.items()
        if "x-ridgeline-role" not in one and one.get("security") != [{}]
    ]
    assert without == []


def test_each_role_may_do_what_its_endpoints_say_and_no_more(app, file):
    """Every endpoint that changes something, and some that read, with the token of each role."""
    document = ask(app.server, f"{BASE}/openapi.json", token=file.tokens["read"])[1]
    order = [role.word for role in Role]
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            needed = one.get("x-ridgeline-role")
            if needed is None or (method == "get" and path != f"{BASE}/info"):
                continue
            filled = re.sub(r"\{\w+\}", "1", path)
            for role in order[: order.index(needed)]:
                status, answer, _ = ask(app.server, filled, method.upper(), {}, file.tokens[role])
                assert (status, needed in answer["error"]) == (403, True), (path, role, answer)
            assert ask(app.server, filled, method.upper(), {}, None)[0] == 401


def test_operate_changes_values_and_admin_alone_what_can_run_code(app, file):
    edits = {
        "operate": [
            [GOOD],
            [{**sums("repartition"), "partitions": 3}],
            [{**sums("set-attribute"), "attribute": "recovery_attempts", "value": 5}],
        ],
        "admin": [
            [ADD],
            [GOOD, ADD],
            [{**GOOD, "value": {"$import": "os:system"}}],
            [{**GOOD, "value": [{"$env": "HOME"}]}],
            [{**GOOD, "value": "env:HOME"}],
            [{**GOOD, "value": {"sasl.password": "file:/etc/shadow"}}],
            [{**GOOD, "value": '{"sasl.password": "file:/etc/shadow"}'}],
            [{"do": "set-property", "operator": "nothing", "property": "x", "value": 1}],
            [{**sums("repartition"), "partitioner": {"class": "ridgeline.StickyPartitioner"}}],
            [{**sums("set-attribute"), "attribute": "stream_codec", "value": CODE, "port": "input"}],
            [{"do": "remove-operator", "name": "sums"}],
        ],
    }
    for one in edits["operate"]:
        status, answer, _ = ask(app.server, f"{BASE}/changes", "POST", {"edits": one}, file.tokens["operate"])
        assert status == 200, (one, answer)
        assert answer["who"] == "operate"
    for dry, one in itertools.product((True, False), edits["admin"]):
        body = {"edits": one, "dryRun": dry}
        status, answer, _ = ask(app.server, f"{BASE}/changes", "POST", body, file.tokens["operate"])
        assert (status, "needs admin" in answer["error"]) == (403, True), (one, answer)
        body["dryRun"] = True
        assert ask(app.server, f"{BASE}/changes", "POST", body, file.tokens["admin"])[0] != 403
    spec = ask(app.server, f"{BASE}/changes", "POST", {"spec": {"class": "x"}}, file.tokens["operate"])
    assert spec[0] == 403
    assert ask(app.server, f"{BASE}/kill", "POST", {}, file.tokens["operate"])[0] == 403


def made_of_each_property():
    """Every property of every operator of the library, with a text that reads, runs or sends something."""
    classes = {one for name in operators.__all__ if isinstance(one := getattr(operators, name), type)}
    for kind in sorted(classes, key=lambda one: one.__name__):
        if issubclass(kind, Operator):
            for name in operator_type(kind).properties:
                yield kind, name


def role_for(kind, name, value):
    plan = SimpleNamespace(operators=[SimpleNamespace(name="x", operator=kind.__new__(kind))])
    return role_of_edits([SetProperty("x", name, value)], plan)


def test_no_text_of_any_property_of_the_library_is_for_operate():
    texts = ("/etc/passwd", "http://elsewhere.example", "os:abort", "select 1", {"polars": "gA=="}, ["a"])
    given = [*made_of_each_property()]
    assert len(given) > 270
    free = [
        (kind.__name__, name, value)
        for kind, name in given
        for value in texts
        if role_for(kind, name, value) is Role.OPERATE
        and not is_number_or_choice(kind, name)  # which refuse it when the change is planned
    ]
    assert free == []
    assert role_for(operators.EventGenerator, "per_second", 5) is Role.OPERATE
    assert role_for(operators.Deduplicate, "within", "5m") is Role.OPERATE
    assert role_for(operators.Deduplicate, "within", "/etc/passwd") is Role.ADMIN
    assert role_for(operators.Deduplicate, "by", "clock") is Role.OPERATE
    assert role_for(operators.FileInput, "path", "/etc") is Role.ADMIN
    assert role_for(operators.FileInput, "window_bytes", 5) is Role.OPERATE


def is_number_or_choice(kind, name):
    """By the text of its annotation, as a reader sees it; the last four are names of choices."""
    texts = [vars(base).get("__annotations__", {}).get(name) for base in kind.__mro__]
    text = str(next(one for one in texts if one is not None))
    rest = re.sub(
        r"Literal\[[^]]*\]|\b(int|float|bool|None|Format|WrittenFormat|LineFormat|Missing)\b|[| ]", "", text
    )
    return rest == ""


def test_without_a_token_nothing_is_read_even_on_this_host(app):
    for path in (f"{BASE}/info", f"{BASE}/live", "/metrics", f"{BASE}/nothing"):
        assert ask(app.server, path)[0] == 401, path
        assert ask(app.server, path, "HEAD")[0] == 401, path
    assert ask(app.server, "/healthz")[0] == 200


def test_no_way_to_write_a_path_or_a_method_gets_around_the_role(app, file):
    """What the router answers is what the role was looked up for: the same routes do both."""
    stop = app.run.stopping
    for path in (
        f"{BASE}//kill",
        f"/{BASE}/kill",
        f"{BASE}/./kill",
        f"{BASE}/x/../kill",
        f"{BASE}/kil%6c",
        f"{BASE}%2fkill",
        f"{BASE}/kill/",
        f"{BASE}/kill?token={file.tokens['admin']}",
        f"{BASE}/kill;x",
        f"{BASE}/KILL",
        f"/page/../{BASE}/kill",
        f"/page/%2e%2e{BASE}/kill",
    ):
        for method in ("POST", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "post", "PO ST"[:4]):
            status = ask(app.server, path, method, {}, file.tokens["read"])[0]
            assert status >= 300, (path, method, status)
            assert ask(app.server, path, method, {})[0] >= 300, (path, method)
    override = {"X_HTTP_Method_Override": "POST", "X_Original_URL": f"{BASE}/kill"}
    ask(app.server, f"{BASE}/info", token=file.tokens["read"], **override)
    assert app.run.stopping is stop is False
    two = [f"Bearer {file.tokens['read']}", f"Bearer {file.tokens['admin']}"]
    assert ask(app.server, f"{BASE}/kill", "POST", {}, Authorization=two)[0] == 401


def test_a_line_counts_for_its_applications_and_until_its_end(app, file, wait_until):
    now = time.time()
    other = file.add("other", "admin", ["quotes*"])
    mine = file.add("mine", "read", ["num*"])
    ended = file.add("ended", "read", expires=now - 1)
    soon = file.add("soon", "read", expires=now + 86_400)
    wait_until(lambda: info(app, mine) == 200, "the new lines")
    assert info(app, soon) == 200
    for token in (other, ended):
        status, answer, _ = ask(app.server, f"{BASE}/info", token=token)
        assert (status, "has no role here" in answer["error"]) == (403, True)


def test_a_broken_version_is_said_and_changes_nothing(app, file, said, wait_until):
    good = Path(file.path).read_text()
    for broken in (
        "",
        good + "eve superuser sha256:" + "0" * 64 + "\n",
        good + "eve admin secret-in-the-clear\n",
        good[: len(good) // 2],
        "\0" * 10,
    ):
        said.clear()
        Path(file.path).write_text(broken)
        wait_until(lambda: info(app, file.tokens["read"]) == 200 and said, "it is said")
        assert "the tokens of before still count" in said[-1]
        assert "secret-in-the-clear" not in said[-1]
    Path(file.path).chmod(0o644)
    Path(file.path).write_text(good)
    wait_until(lambda: info(app, file.tokens["read"]) == 200 and "chmod 600" in said[-1], "the mode is said")
    Path(file.path).chmod(0o600)
    file.remove("read")
    wait_until(lambda: info(app, file.tokens["read"]) == 401, "the line is removed")


def test_a_file_that_was_cut_within_its_last_line_gives_no_token_more_than_before(tmp_path):
    path, said = tmp_path / "tokens", []
    add_rule(str(path), token_rule("ann", "secret", Rule("ann", Role.READ, b"", ("quotes*",), 4e9)))
    whole = path.read_bytes()
    rules = RulesFile(str(path), said.append)
    before = rules.rules
    for end in (whole.index(b" application="), whole.index(b" expires="), len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(RidgelineError, match=r"no newline.*may have been cut.*`echo >> "):
            read_rules_file(str(path))
        rules._look()
        assert rules.rules is before
        assert "the tokens of before still count" in said[-1]
    path.write_bytes(whole)
    rules._look()
    assert rules.rules == before


def test_a_stream_that_is_open_ends_within_seconds_of_its_token(app, file):
    for path in (f"{BASE}/live", f"{BASE}/live?every=100"):
        token = file.add("reader", "read")
        connection = http.client.HTTPConnection("127.0.0.1", app.server.port, timeout=PATIENCE_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            if answer.status == 200 or time.monotonic() > deadline:
                break
            answer.read()
        assert answer.read(100)
        file.remove("reader")
        removed = time.monotonic()
        with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
            while answer.read1(65_536):
                pass
        assert time.monotonic() - removed < 10
        connection.close()


def test_a_role_that_is_lowered_counts_at_once_for_the_page(app, file, wait_until):
    page = {"Origin": f"http://127.0.0.1:{app.server.port}", "Sec_Fetch_Site": "same-origin"}
    given = {"token": file.tokens["operate"]}
    status, answer, headers = ask(app.server, "/page/session", "POST", given, **page)
    assert (status, answer["role"], answer["name"], answer["writes"]) == (200, "operate", "operate", True)
    cookie = headers["set-cookie"].partition(";")[0]
    session = {"Cookie": cookie, "X_Ridgeline_Key": answer["key"], **page}
    change = (f"{BASE}/changes", "POST", {"edits": [GOOD], "who": "page"}, None)
    status, row, _ = ask(app.server, *change, **session)
    assert (status, row["who"]) == (200, "operate (page)")
    forged = {**session, "Sec_Fetch_Site": "cross-site"}
    assert ask(app.server, *change, **forged)[0] == 403
    lowered = Path(file.path).read_text().replace("operate operate", "operate read")
    Path(file.path).write_text(lowered)
    wait_until(lambda: ask(app.server, *change, **session)[0] == 403, "it may not change any more")
    rights = ask(app.server, "/page/session", **session)[1]
    assert (rights["reads"], rights["writes"], rights["role"]) == (True, False, "read")
    file.remove("operate")
    wait_until(lambda: info(app, **session) == 401, "the session proves nothing")


def test_a_proxy_names_who_asks_and_no_one_else_can(app, file, said, wait_until):
    file.line("user:ann", "operate")
    file.line("group:oncall", "admin")
    user = {"X_Forwarded_User": "ann"}
    wait_until(lambda: info(app, **user) == 200, "the new lines")
    row = ask(app.server, f"{BASE}/changes", "POST", {"edits": [GOOD]}, **user)[1]
    assert row["who"] == "ann"
    assert info(app, X_Forwarded_User="bob") == 403
    oncall = {"X_Forwarded_User": "bob", "X_Forwarded_Groups": "dev, oncall"}
    assert ask(app.server, f"{BASE}/changes", "POST", {"edits": [ADD], "dryRun": True}, **oncall)[0] != 403
    assert info(app, X_Forwarded_User=["bob", "ann"]) == 401
    assert ask(app.server, f"{BASE}/pause", "POST", {}, Sec_Fetch_Site="cross-site", **user)[0] == 403
    assert ask(app.server, f"{BASE}/pause", "POST", {}, Origin="http://evil.example", **user)[0] == 403
    app.web.state.access.proxy = TrustedProxy.of("X-Forwarded-User", ["10.0.0.0/8"])
    assert info(app, **user) == 401
    assert "is no `--trusted-proxy`" in said[-1]
    assert info(app, **user, X_Forwarded_For="10.0.0.1") == 401


def test_the_headers_of_an_oauth2_proxy_name_who_asks(app, file, wait_until):
    """As oauth2-proxy sends them with `--pass-user-headers` and `--pass-access-token`."""
    file.line("user:ann", "read")
    file.line("group:oncall", "operate")
    sent = {
        "X_Forwarded_User": "ann",
        "X_Forwarded_Email": "ann@example.org",
        "X_Forwarded_Preferred_Username": "ann.lee",
        "X_Forwarded_Groups": "dev,oncall,role:viewer",
        "X_Forwarded_Access_Token": "eyJhbGciOi.e30.c2ln",
        "X_Forwarded_For": "203.0.113.7",
        "X_Forwarded_Proto": "https",
        "X_Auth_Request_Redirect": "/",
    }
    wait_until(lambda: info(app, **sent) == 200, "the new lines")
    assert ask(app.server, f"{BASE}/changes", "POST", {"edits": [GOOD]}, **sent)[1]["who"] == "ann"
    alone = {**sent, "X_Forwarded_Groups": "dev"}
    assert ask(app.server, f"{BASE}/changes", "POST", {"edits": [GOOD]}, **alone)[0] == 403


def test_a_flood_of_tries_is_bounded_and_counted_and_changes_are_noted_with_secrets_masked(
    app, file, tmp_path
):
    path = str(tmp_path / "audit.jsonl")
    secret = {"do": "set-property", "operator": "numbers", "property": "password", "value": "planted-secret"}
    status, row, headers = ask(
        app.server, f"{BASE}/changes", "POST", {"edits": [secret]}, file.tokens["admin"]
    )
    assert status == 200
    for number in range(200):
        ask(app.server, f"{BASE}/kill", "POST", {}, f"guess-{number}-planted")
    ask(app.server, f"{BASE}/changes", "POST", {"edits": [ADD]}, file.tokens["operate"])
    app.web.state.audit.close()
    text = Path(path).read_text()
    assert "planted" not in text
    entries = [json.loads(line) for line in text.splitlines()]
    change = [one for one in entries if one.get("id") == headers["x-request-id"]][-1]
    assert (change["event"], change["who"], change["by"]) == ("done", "admin", "token")
    assert change["role"] == "admin"
    assert change["what"]["edits"][0]["value"] == "***"
    assert change["result"]["id"] == row["id"]
    assert (change["from"], change["application"], change["status"]) == ("127.0.0.1", "numbers", 200)
    tries = [one for one in entries if one.get("path") == f"{BASE}/kill"]
    left_out = sum(one.get("leftOut", 0) for one in entries)
    assert len(tries) + left_out == 200
    assert 60 <= len(tries) < 150
    assert entries[-1]["event"] == "denied"
    assert oct(Path(path).stat().st_mode & 0o777) == "0o600"


def test_without_room_for_the_audit_log_nothing_changes_and_all_is_read(app, file, said, monkeypatch):
    """A full disk: `/dev/full` gives the error of the kernel itself."""
    audit = app.web.state.audit
    before, audit._file._descriptor = audit._file._descriptor, os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(audit, "_look", lambda: None)
    change = (f"{BASE}/changes", "POST", {"edits": [GOOD]}, file.tokens["operate"])
    asked = len(app.run.changes.rows())
    status, answer, _ = ask(app.server, *change)
    assert (status, "No space left on device" in answer["error"]) == (503, True)
    assert len(app.run.changes.rows()) == asked
    assert info(app, file.tokens["read"]) == 200
    assert "changes are refused" in said[-1]
    audit._file._descriptor = before
    assert ask(app.server, *change)[0] == 200
    assert "changes are made again" in said[-1]


def test_a_disk_that_hangs_delays_who_is_denied_and_no_one_else(app, file, wait_until):
    """The lock of the log is held as by a sync that does not return."""
    audit = app.web.state.audit
    answers = []
    tries = [threading.Thread(target=lambda: answers.append(info(app, "wrong"))) for _ in range(100)]
    with audit._lock:
        for one in tries:
            one.start()
        wait_until(lambda: audit._left_out + audit._aside.statistics().tasks_waiting >= 99, "all tries")
        assert info(app, file.tokens["read"]) == 200
        assert ask(app.server, "/healthz")[0] == 200
        assert audit._left_out == 100 - BURST - 1
    for one in tries:
        one.join(PATIENCE_SECONDS)
    assert answers == [401] * 100


def test_a_session_that_a_proxy_opened_has_the_groups_of_now_and_ends(app, file, wait_until):
    file.line("group:oncall", "operate")
    ann = {"X_Forwarded_User": "ann", "X_Forwarded_Groups": "oncall"}
    wait_until(lambda: info(app, **ann) == 200, "the new line")
    path = ask(app.server, f"{BASE}/page", "POST", {}, **ann)[1]["path"]
    origin = f"http://127.0.0.1:{app.server.port}"
    body = {"code": path.partition("#code=")[2]}
    status, opened, headers = ask(app.server, "/page/session", "POST", body, Origin=origin)
    assert (status, opened["role"]) == (200, "operate")
    page = {"Cookie": headers["set-cookie"].partition(";")[0], "X_Ridgeline_Key": opened["key"]}
    assert info(app, **page) == 200
    assert info(app, **page, X_Forwarded_User="ann", X_Forwarded_Groups="dev") == 401
    assert info(app, **page, X_Forwarded_User="bob", X_Forwarded_Groups="dev") == 403
    sessions = app.web.state.access.sessions
    now, sessions._now = sessions._now, lambda: now() + NAMED_SECONDS + 1
    assert info(app, **page) == 401
    assert len(sessions._sessions) == 0


def test_a_log_whose_next_file_others_could_replace_refuses_changes_and_says_why(app, file, said, tmp_path):
    """It was renamed, and its folder opened to all, while the application runs."""
    (tmp_path / "audit.jsonl").rename(tmp_path / "earlier.jsonl")
    tmp_path.chmod(0o777)
    change = (f"{BASE}/changes", "POST", {"edits": [GOOD]}, file.tokens["operate"])
    asked = len(app.run.changes.rows())
    assert info(app, "wrong") == 401
    status, answer, _ = ask(app.server, *change)
    assert (status, "can be written by others" in answer["error"]) == (503, True)
    assert len(app.run.changes.rows()) == asked
    assert "changes are refused" in said[-1]
    tmp_path.chmod(0o700)
    assert ask(app.server, *change)[0] == 200
    assert "changes are made again" in said[-1]
