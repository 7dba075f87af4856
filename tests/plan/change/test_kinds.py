"""Every kind of edit has its row, and the names by which users ask for it are its own."""

from typing import get_args

from ridgeline.plan.change.kinds import KINDS, VERBS, kind_of
from ridgeline.plan.edits import EDITS, Edit


def test_every_kind_of_edit_has_one_row():
    assert sorted(kind.edit.__name__ for kind in KINDS) == sorted(kind.__name__ for kind in get_args(Edit))


def test_names_in_json_are_those_of_the_classes():
    assert EDITS["set-property"].__name__ == "SetProperty"
    assert len(EDITS) == len(KINDS)


def test_every_kind_can_be_asked_for_in_words_of_its_own():
    assert all(kind.verbs for kind in KINDS)
    assert len(VERBS) == sum(len(kind.verbs) for kind in KINDS)
    requests = [verb.request for verb in VERBS.values()]
    assert len(set(requests)) == len(requests)


def test_the_words_of_a_verb_are_the_fields_of_its_request():
    for verb in VERBS.values():
        if verb.fields:
            assert len(verb.fields) == len(verb.words.split())
            edit = verb.edit(*verb.fields)
            assert verb in kind_of(edit).verbs
