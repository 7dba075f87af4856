"""Texts in the four forms: what they say, and hostile ones."""

import pytest

from ridgeline.plan.spec.form import DEEPEST, Form, FormError
from ridgeline.plan.spec.texts import decode, read_document


def test_plain_scalars_of_yaml_are_those_of_its_core_schema():
    text = "a: no\nb: 1:30\nc: 0x1F\nd: 1e3\ne: ~\nf: 2026-01-01\non: yes\n1: .5\ng: '5'\nh:\n"
    assert read_document(text, Form.YAML) == {
        "a": "no",
        "b": "1:30",
        "c": 31,
        "d": 1000.0,
        "e": None,
        "f": "2026-01-01",
        "on": "yes",
        "1": 0.5,
        "g": "5",
        "h": None,
    }


def test_aliases_of_yaml_stand_for_their_values():
    assert read_document("a: &x [1, 2]\nb: *x\n", Form.YAML) == {"a": [1, 2], "b": [1, 2]}


DEEP = 10_000
LAUGHS = "a0: &a0 x\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
HOSTILE = [
    (Form.JSON, '{"a": ' + "[" * DEEP + "]" * DEEP + "}", "more than 64 levels", None),
    (Form.YAML, "a: " + "[" * DEEP + "]" * DEEP, "more than 64 levels", None),
    (Form.YAML, "\n".join(" " * i + "a:" for i in range(100)), "more than 64 levels", None),
    (Form.YAML, LAUGHS, "more than 200,000 values, with aliases", None),
    (Form.YAML, "a: &a [*a]", "`*a` stands for nothing, or for what it is part of", 1),
    (Form.YAML, "x: 1\na: !!python/object/apply:os.system [ls]", "the tag `tag:yaml.org,2002:python", 2),
    (Form.YAML, "a: &x {b: 1}\nc:\n  <<: *x", "merge keys", 3),
    (Form.YAML, "a: 1\n---\nb: 2", "a second document", 2),
    (Form.YAML, "[a, b]: 1", "a key is no text", 1),
    (Form.YAML, "a: \0", "control characters are not allowed", 1),
    (Form.YAML, "a: [1\nb", "this is no YAML", 3),
    (Form.JSON, '{"a": 1,\n\n "a": 2}', "the key `a` is there twice", 3),
    (Form.YAML, "a: 1\na: 2", "the key `a` is there twice", 2),
    (Form.PROPERTIES, "a=1\n\n# b\na=2", "the key `a` is there twice", 4),
    (Form.PROPERTIES, r"a=\uzz", r"`\uzz` is no character", 1),
    (Form.PROPERTIES, "a\\\n" * 20_000, "more than 20,000 characters", 10_001),
    (Form.JSON, '{"a": NaN}', "`NaN` is no number of JSON", 1),
    (Form.JSON, '{"a": -Infinity}', "`-Infinity` is no number of JSON", 1),
    (Form.YAML, "x: 1\na: .nan", "`.nan` is no number", 2),
    (Form.YAML, "a: 1e999", "`1e999` is too great", 1),
    (Form.JSON, '{"a": 1e999}', "`a` is inf, which is no number", None),
    (Form.JSON, '{"a": ' + "9" * 5_000 + "}", "Exceeds the limit", None),
    (Form.YAML, "a: " + "9" * 5_000, "a number of 5,000 digits", 1),
    (Form.JSON, '{"a": 1,}', "this is no JSON", 1),
    (Form.JSON, "[1]", "the document is a list", None),
    (Form.YAML, "text", "the document is a single value", None),
    (Form.JSON, " ", "the file is empty", None),
    (Form.YAML, "# only this", "the file is empty", None),
    (Form.PROPERTIES, "", "the file is empty", None),
]


@pytest.mark.parametrize(("form", "text", "what", "line"), HOSTILE)
def test_a_hostile_text_is_refused(form, text, what, line):
    with pytest.raises(FormError) as caught:
        read_document(text, form)
    assert what in str(caught.value)
    assert caught.value.line == line


def test_a_document_of_many_values_is_refused():
    with pytest.raises(FormError, match="more than 200,000 values"):
        read_document('{"a": [' + "1," * 200_000 + "1]}", Form.JSON)


def test_as_many_levels_as_are_allowed():
    text = '{"a": ' * DEEPEST + "1" + "}" * DEEPEST
    assert read_document(text, Form.JSON)


def test_texts_are_utf8():
    assert decode(b"\xef\xbb\xbfa: \xc3\xa9\r\n") == "a: é\n"
    with pytest.raises(FormError, match="byte 0xe9 is no UTF-8") as caught:
        decode(b"a: 1\nb: \xe9")
    assert caught.value.line == 2
