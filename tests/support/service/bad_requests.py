"""Requests for changes that must be refused: malformed, invalid, conflicting, unauthorised. By a seed."""

import json
from dataclasses import dataclass, field

BASE = "/ws/v2/stram"
ADD = {"do": "add-operator", "name": "more", "spec": {"class": "support.service.living.Words"}}
CONSOLE = {"do": "add-operator", "name": "console", "spec": {"class": "ridgeline.operators.ConsoleOutput"}}
GOOD = {"do": "set-property", "operator": "sums", "property": "factor", "value": 1}


@dataclass
class Bad:
    """A request, and the status with which it is refused. `token`: which one it sends."""

    path: str
    body: bytes
    statuses: tuple = (400, 409)
    method: str = "POST"
    media_type: str = "application/json"
    token: str = "all"
    headers: dict = field(default_factory=dict)


def bad_request(random):
    """Any of them."""
    return random.choice((malformed, malformed, invalid, invalid, invalid, conflicting, unauthorised))(random)


def _posted(edits, **more):
    return Bad(f"{BASE}/changes", json.dumps({"edits": edits, **more}).encode())


def _odd(random):
    """A value of a type that a text is not."""
    return random.choice((7, 1.5, True, [], {}, ["a"], {"a": 1}))


def _name(random):
    """The name of nothing."""
    return random.choice(("", " ", "cuont", "sums ", "../etc", "sums.input.x", "ä", "\x00", "a" * 5_000, "0"))


def malformed(random):  # noqa: C901, PLR0911, PLR0912  a case each
    """What is no request, or no edit."""
    edit = dict(GOOD)
    match random.randrange(16):
        case 0:
            return Bad(f"{BASE}/changes", random.randbytes(random.randrange(1, 200)), (400,))
        case 1:
            cut = json.dumps({"edits": [edit]}).encode()
            return Bad(f"{BASE}/changes", cut[: random.randrange(1, len(cut))], (400,))
        case 2:
            return Bad(
                f"{BASE}/changes", json.dumps(random.choice(([], 1, None, "x", [edit]))).encode(), (400,)
            )
        case 3:
            media_type = random.choice(("text/plain", "", "application/x-www-form-urlencoded", "multipart/a"))
            return Bad(
                f"{BASE}/changes", json.dumps({"edits": [edit]}).encode(), (415,), media_type=media_type
            )
        case 4:
            return _posted([{**edit, _name(random): 1}])
        case 5:
            edit.pop(random.choice(("do", "operator", "property", "value")))
            return _posted([edit])
        case 6:
            return _posted([{**edit, random.choice(("do", "operator", "property")): _odd(random)}])
        case 7:
            return _posted(
                [{**edit, "do": random.choice(("set_property", "drop", "", "SET-PROPERTY", "eval"))}]
            )
        case 8:
            return _posted(random.choice(([], [[]], [None], ["x"], [edit] * 1_001, "edits", {}, 3)))
        case 9:
            return Bad(
                f"{BASE}/changes", json.dumps({random.choice(("edit", "Edits", "")): [edit]}).encode(), (400,)
            )
        case 10:
            nested = b"[" * random.choice((60, 500, 100_000))
            return Bad(f"{BASE}/changes", b'{"edits": ' + nested + b"]" * len(nested) + b"}", (400,))
        case 11:
            value = random.choice((b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"', b"1" * 5_000))
            text = json.dumps({"edits": [{**edit, "value": "HERE"}]}).encode().replace(b'"HERE"', value)
            return Bad(f"{BASE}/changes", text, (400,))
        case 12:
            return _posted(
                [edit], **{random.choice(("wait", "dryRun")): random.choice((-1, 31, "x", [], 0.5))}
            )
        case 13:
            return Bad(f"{BASE}/changes", json.dumps({"edits": [edit], "note": "n" * 1_001}).encode(), (400,))
        case 14:
            return Bad(f"{BASE}/changes", b'{"edits": ["' + b"x" * 1_100_000 + b'"]}', (413,))
        case _:
            requests = random.choice(
                (
                    [{"requestType": "DropDatabase"}],
                    [{"requestType": "CreateOperatorRequest", "operatorName": "x"}],
                    [{"requestType": "RemoveOperatorRequest", "operatorName": _odd(random)}],
                    [{"requestType": 5}],
                    [],
                    "x",
                    [None],
                )
            )
            return Bad(f"{BASE}/logicalPlan", json.dumps({"requests": requests}).encode(), (400,))


def invalid(random):  # noqa: C901, PLR0911, PLR0912  a case each
    """Edits that this application cannot have."""
    name = _name(random)
    match random.randrange(16):
        case 0:
            return _posted([{**GOOD, "operator": name or "none"}])
        case 1:
            return _posted([{**GOOD, "property": name or "none"}])
        case 2:
            return _posted([{**GOOD, "value": random.choice(("x", [1], {"a": 1}, None, 1.5, "1.5"))}])
        case 3:
            partitions = random.choice((0, -1, 10**9, 10**30))
            return _posted([{"do": "repartition", "operator": "sums", "partitions": partitions}])
        case 4:
            return _posted([{"do": "repartition", "operator": name or "none", "partitions": 2}])
        case 5:
            kind = random.choice(
                ("os.system", "no.such.Class", "json", "", "a b", "ridgeline.KeyedState", name)
            )
            spec = {"do": "add-operator", "name": "more", "spec": {"class": kind}}
            return _posted([spec, {"do": "add-sink", "stream": "sums", "sink": "more.input"}])
        case 6:
            spec = {"class": ADD["spec"]["class"], "properties": {"nothing": 1}}
            return _posted(
                [{**ADD, "spec": spec}, {"do": "add-sink", "stream": "sums", "sink": "more.input"}]
            )
        case 7:
            return _posted([{"do": "remove-operator", "name": random.choice(("numbers", name or "none"))}])
        case 8:
            return _posted([{"do": "remove-stream", "name": random.choice(("numbers", name or "none"))}])
        case 9:
            return _posted([CONSOLE, {"do": "add-sink", "stream": name or "none", "sink": "console.input"}])
        case 10:
            sink = random.choice(
                ("sink", "sink.", ".input", "sink.output", "sink.input.x", "sums.sums", name)
            )
            return _posted([{"do": "add-sink", "stream": "sums", "sink": sink}])
        case 11:
            return _posted([ADD, {"do": "add-sink", "stream": "sums", "sink": "more.input"}])  # not its type
        case 12:
            edit = {"do": "set-attribute", "operator": "sums", "attribute": name or "none", "value": 1}
            return _posted([edit])
        case 13:
            edit = {
                "do": "set-attribute",
                "operator": "sums",
                "attribute": "partitions",
                "value": name or "x",
            }
            return _posted([{**edit, "port": random.choice(("", "input", "nowhere"))}])
        case 14:
            path = random.choice(("properties", "attributes", "ports/input/attributes"))
            body = {f"none{random.random()}": 1}
            return Bad(f"{BASE}/logicalPlan/operators/sums/{path}", json.dumps(body).encode())
        case _:
            path = random.choice(
                ("logicalPlan/operators/none/properties", "physicalPlan/operators/99/properties")
            )
            return Bad(f"{BASE}/{path}", b'{"factor": 2}', (404,))


def conflicting(random):  # noqa: PLR0911  a case each
    """Edits of which each could be, and all together cannot."""
    link = {"do": "add-sink", "stream": "sums", "sink": "console.input"}
    match random.randrange(8):
        case 0:
            return _posted([{"do": "remove-operator", "name": "sums"}, GOOD])
        case 1:
            return _posted([CONSOLE, CONSOLE, link])
        case 2:
            return _posted([CONSOLE, link, link])
        case 3:
            return _posted([CONSOLE])  # nothing leads to it
        case 4:
            return _posted(
                [{"do": "rename-operator", "name": "sums", "new": random.choice(("sink", "numbers"))}]
            )
        case 5:
            stream = {
                "do": "add-stream",
                "name": "again",
                "source": "sums.output",
                "sinks": ["console.input"],
            }
            return _posted([CONSOLE, stream])  # an output has one stream
        case 6:
            loop = {"do": "add-sink", "stream": "sums", "sink": "sums.input"}
            return _posted([loop])
        case _:
            edits = [{"do": "rename-operator", "name": "sums", "new": "added"}, GOOD]
            random.shuffle(edits)
            return _posted([{"do": "rename-operator", "name": "sums", "new": "added"}, *edits])


def unauthorised(random):
    """A request that would be made, if another had sent it."""
    path, body = random.choice(
        (
            ("changes", {"edits": [{**GOOD, "value": 2}]}),
            ("pause", {}),
            ("shutdown", {}),
            ("kill", {}),
            ("logicalPlan/operators/sums/properties", {"factor": 2}),
            ("logicalPlan", {"requests": [{"requestType": "RemoveOperatorRequest", "operatorName": "sums"}]}),
            ("recordings", {"operator": "sums"}),
            ("changes/1/withdraw", {}),
        )
    )
    found = Bad(f"{BASE}/{path}", json.dumps(body).encode(), (401, 403))
    match random.randrange(5):
        case 0:
            found.token = "none"
        case 1:
            found.token = "wrong"
        case 2:
            found.token = "read"
        case 3:
            found.headers["Host"] = random.choice(("evil.example", "evil.example:80", ""))
        case _:
            found.method, found.statuses = random.choice(("PUT", "DELETE", "PATCH")), (405, 404)
    return found
