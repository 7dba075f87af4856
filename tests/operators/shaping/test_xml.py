"""XML as columns: attributes, lists, encodings, documents that attack, and what does not fit."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ridgeline import Application, ValidationError
from ridgeline.testing import CollectorSink, ListInput, run_local
from support.depth import deep


class Price(NamedTuple):
    currency: str | None
    text: float | None


class Order(NamedTuple):
    id: int
    note: str | None
    price: Price | None
    item: list[str]
    paid: bool | None


RAW = pa.schema([("number", pa.int64()), ("raw", pa.binary())])
TEXT = pa.schema([("number", pa.int64()), ("raw", pa.string())])


def parsed(
    documents: list[Any], schema: Any = Order, given: pa.Schema = TEXT
) -> tuple[list[Any], dict[int, str]]:
    app = Application("xml")
    source = app.read("source", ListInput(given, list(enumerate(documents))))
    read = source.parse("read", "raw", "xml", schema=schema, partitions=2)
    read.write("sink", CollectorSink(schema))
    read.bad.write("bad", CollectorSink())
    found = run_local(app)
    return found.collected("sink"), {row["number"]: row["reason"] for row in found.collected("bad")}


def test_attributes_elements_lists_and_namespaces() -> None:
    document = """<?xml version="1.0"?>
    <o:order xmlns:o="urn:orders" id=" 7 "><!-- five items -->
      <o:note>a &amp; b&#33; <![CDATA[<c>]]></o:note>
      <price currency="CHF">5.50</price><item>x</item><more><item>inner</item></more><item/>
      <paid> true </paid>
    </o:order>"""
    (found,), bad = parsed([document])
    assert found == Order(7, "a & b! <c>", Price("CHF", 5.5), ["x", ""], True)
    assert not bad


def test_what_is_missing_is_null() -> None:
    found, bad = parsed(['<o id="1"/>', '<o id="2"><note></note><price/><paid/></o>'])
    assert sorted(found) == [Order(1, None, None, [], None), Order(2, "", Price(None, None), [], None)]
    assert not bad


def test_bytes_may_say_their_encoding() -> None:
    latin = '<?xml version="1.0" encoding="ISO-8859-1"?><o id="1"><note>Zürich</note></o>'.encode("latin-1")
    utf_16 = '<?xml version="1.0" encoding="UTF-16"?><o id="2"><note>Zürich</note></o>'.encode("utf-16")
    found, bad = parsed([latin, utf_16, b"<o id='3'>\xff</o>"], given=RAW)
    assert sorted((row.id, row.note) for row in found) == [(1, "Zürich"), (2, "Zürich")]
    assert list(bad) == [2]


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
ATTACKS = [
    f'<!DOCTYPE o [<!ENTITY l0 "ha">{LAUGHS}]><o id="1"><note>&l9;</note></o>',
    '<!DOCTYPE o [<!ENTITY x SYSTEM "file:///etc/passwd">]><o id="1"><note>&x;</note></o>',
    '<!DOCTYPE o SYSTEM "http://127.0.0.1:1/o.dtd"><o id="1"/>',
    '<!DOCTYPE o [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]><o id="1"/>',
    '<!DOCTYPE o><o id="1"/>',
]


@pytest.mark.parametrize("document", ATTACKS)
def test_declarations_of_document_types_are_refused(document: str) -> None:
    found, bad = parsed([document, '<o id="5"/>'])
    assert [row.id for row in found] == [5]
    assert "declares a document type" in bad[0]


BAD = {
    "no XML": [
        "",
        " ",
        "text",
        "<o>",
        "<o></p>",
        '<o id="1"/><o id="2"/>',
        "<o>&x;</o>",
        "<o id='1\x00'/>",
    ],
    "`id`": ["<o/>", '<o id="x"/>', '<o id="1.5"/>', f'<o id="{2**63}"/>', "<o><id>1</id><id>2</id></o>"],
    "`note`": ['<o id="1"><note><b/></note></o>', '<o id="1"><note/><note/></o>'],
    "`price`": ['<o id="1" price="5"/>', '<o id="1"><price>1e999</price></o>'],
    "`paid`": ['<o id="1" paid="yes"/>'],
}


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_bad(what: str) -> None:
    found, bad = parsed([*BAD[what], '<o id="9"/>'])
    assert [row.id for row in found] == [9]
    assert sorted(bad) == list(range(len(BAD[what])))
    if what != "no XML":
        assert all(f"{what}" in reason for reason in bad.values()), bad


def test_depth_is_no_danger() -> None:
    deep = "<a>" * 50_000 + "</a>" * 50_000
    found, bad = parsed([deep, f'<o id="1">{deep}</o>'])
    assert [row.id for row in found] == [1]
    assert list(bad) == [0]


@pytest.mark.parametrize("seed", range(deep(2)))
def test_random_changes_never_end_the_application(seed: int) -> None:
    chance = random.Random(seed)
    good = '<o id="7"><note>a</note><price currency="CHF">5.5</price><item>x</item></o>'
    documents = []
    for _ in range(60):
        text = list(good)
        for _ in range(chance.randrange(1, 4)):
            text[chance.randrange(len(text))] = chance.choice("<>/&;\"'=x\x00\ud7ff7 ")
        documents.append("".join(text))
    found, bad = parsed(documents)
    assert len(found) + len(bad) == len(documents)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (pa.map_(pa.string(), pa.int64()), "which XML does not have"),
        (pa.list_(pa.list_(pa.int64())), "a list of lists"),
    ],
)
def test_types_that_xml_does_not_have_are_a_fault(kind: pa.DataType, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        parsed([], pa.schema([("x", kind)]))
