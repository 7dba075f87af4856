import json
from enum import Enum
from pathlib import Path
from typing import Any

from ridgeline.api import Application
from ridgeline.api.partitioner import assign_keys
from ridgeline.plan import describe, plan_application, to_dict
from ridgeline.plan.shown_properties import plain
from support.plan.parts import Balances, Check, Payment, Source, Store, payments_app
from support.rows import in_a_row

PAYMENT = "Payment(account: int64, cents: int64, time: timestamp[us, tz=UTC])"
SMALL = f"""\
application small, window 0.2 s, plan version 0, windows_kept=9

logical plan: 4 operators, 3 streams
  operator  class     attributes                                 properties
  source    Source    partitions=1                               count=20
  check     Check     partitions=2 processing_mode=EXACTLY_ONCE
  balances  Balances  partitions=3
  store     Store     partitions=1

  stream    from, to                           locality    schema
  payments  source.payments -> check.payments              {PAYMENT}
  valid     check.valid -> balances.payments               {PAYMENT}
  balances  balances.balances -> store.input   NODE_LOCAL  Balance(account: int64, cents: int64)

physical plan: 11 operators, 15 streams
  id  operator                   gets
   1  source
   2  check[0]                   payments: one tuple in 2, from number 0, of source
   3  check[1]                   payments: one tuple in 2, from number 1, of source
   4  check.valid#unifier[0]     input: hash & 1023 in {{0, ..., 1022: 341 keys}} of check[0], check[1]
   5  check.valid#unifier[1]     input: hash & 1023 in {{1, ..., 1023: 342 keys}} of check[0], check[1]
   6  check.valid#unifier[2]     input: hash & 1023 in {{2, ..., 682: 341 keys}} of check[0], check[1]
   7  balances[0]                payments: all of check.valid#unifier[0]
   8  balances[1]                payments: all of check.valid#unifier[1]
   9  balances[2]                payments: all of check.valid#unifier[2]
  10  balances.balances#unifier  input: all of balances[0], balances[1], balances[2]
  11  store                      input: all of balances.balances#unifier

execution plan: 4 stages, 7 containers
  stage  container  operators
      0          0  source
      1          1  check[0]
      1          2  check[1]
      2          3  check.valid#unifier[0], balances[0]
      2          4  check.valid#unifier[1], balances[1]
      2          5  check.valid#unifier[2], balances[2]
      3          6  balances.balances#unifier, store

notes:
  `check`: port `payments` is divided round robin among 2 partitions: \
the order of a key's tuples is not kept from here on"""


def small() -> Application:
    app = Application("small", window="200ms", windows_kept=9)
    source = app.add_operator("source", Source(count=20))
    check = app.add_operator("check", Check(), partitions=2, processing_mode="EXACTLY_ONCE")
    balances = app.add_operator("balances", Balances(), partitions=3)
    store = app.add_operator("store", Store())
    app.add_stream("payments", source.payments, check.payments)
    app.add_stream("valid", check.valid, balances.payments)
    app.add_stream("balances", balances.balances, store.input, locality="NODE_LOCAL")
    return app


def test_text() -> None:
    assert describe(plan_application(small())) == SMALL


def test_many_sources_are_counted() -> None:
    app = in_a_row(Application("many", window=0), source=(Source(), {"partitions": 9}), store=Store())
    text = describe(plan_application(app))
    assert text.startswith("application many, windows as fast as they get, plan version 0\n")
    assert "input: all of source[0], source[1], source[2], source[3], 5 more\n" in text


def test_json() -> None:
    plan = to_dict(plan_application(payments_app()))
    assert json.loads(json.dumps(plan, allow_nan=False)) == plan
    assert list(plan) == ["application", "version", "logical", "physical", "execution", "notes"]
    assert [note["operator"] for note in plan["notes"]] == ["source"]
    assert plan["logical"]["window_seconds"] == 0.2
    top = plan["logical"]["operators"][3]
    assert (top["name"], top["class"]) == ("top", "support.plan.parts.TopBalances")
    assert (top["attributes"]["partitions"], top["attributes"]["application_window_count"]) == (2, 5)
    assert [(port["name"], port["type"], port["schema"]) for port in top["ports"]] == [
        ("balances", "input", "Balance(account: int64, cents: int64)"),
        ("top", "output", "Balance(account: int64, cents: int64)"),
    ]
    stream = plan["logical"]["streams"][2]
    assert stream["source"] == {"operatorName": "balances", "portName": "balances"}
    assert [sink["operatorName"] for sink in stream["sinks"]] == ["top", "balance_store"]
    assert (stream["locality"], stream["localities"], stream["persisted"]) == (None, [None, None], [])
    operators = {operator["title"]: operator for operator in plan["physical"]["operators"]}
    first = operators["balances[0]"]
    keys = {"mask": 1023, "keys": sorted(assign_keys(3)[0].keys)}
    assert (first["id"], first["partition"], first["partitions"]) == (5, 0, 3)
    assert (first["unifier"], first["slider"], first["inputs"]) == (False, False, {"payments": keys})
    assert operators["check"]["inputs"] == {"payments": {"round_robin": True}}
    assert operators["top.top#unifier"]["unifier"] is True
    route = plan["physical"]["streams"][3]
    assert [route[end] for end in ("source", "source_port", "sink", "sink_port")] == [
        4,
        "valid",
        5,
        "payments",
    ]
    assert route["route"] == keys
    assert plan["execution"]["stages"][1] == {"index": 1, "containers": [{"id": 2, "operators": [3, 4, 16]}]}


class Colour(Enum):
    RED = 1


def test_plain_values() -> None:
    values: list[Any] = [None, True, 3, 1.5, "text", [1, ["a"]], {"a": {"b": 1}}]
    assert [plain(value) for value in values] == values
    assert plain(Path("/tmp/x")) == "/tmp/x"
    assert plain(Payment) == repr(Payment)
    assert plain(Colour.RED) == "<Colour.RED: 1>"
    assert plain(float("nan")) == "nan"
    assert plain({1: 2}) == "{1: 2}"
    assert plain((1, 2)) == "(1, 2)"
    assert len(plain("x" * 500)) <= 200
    assert len(plain(list(range(500)))) <= 200
