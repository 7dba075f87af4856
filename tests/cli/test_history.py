"""`ridgeline history`: its address, its end, and what it is given by mistake."""


def test_what_is_not_there_is_said_at_once(ridgeline_command):
    result = ridgeline_command("history", "none.jsonl")
    assert result.exit_code == 2
    assert "there is no event log `none.jsonl`" in result.stderr
