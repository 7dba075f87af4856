"""Every kind of edit has its row, and the names by which users ask for it are its own."""

from ridgeline.plan.change.kinds import KINDS, VERBS, kind_of


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
