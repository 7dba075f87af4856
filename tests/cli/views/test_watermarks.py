from typing import Any

from ridgeline.cli.views.watermarks import watermarks_table
from support.cli import overviews


def row(**more: Any) -> Any:
    known = {
        "operator": "windowed[0]",
        "id": 3,
        "state": "running",
        "watermark": 1_767_225_605.0,
        "lagSeconds": 7.0,
        "heldBackBy": ["source[0]", "source[1]", "source[2]"],
        "idleInputs": [],
        "lateRecords": 0,
        "recordsAhead": 0,
    }
    return {**known, **more}


def shown(*rows: Any) -> str:
    return "\n".join(overviews.drawn(watermarks_table(rows, 120), width=120))


def test_it_says_who_holds_an_operator_back() -> None:
    text = shown(row(), row(operator="sink", state="waiting", watermark=None, lagSeconds=None))
    assert "2026-01-01 00:00:05" in text
    assert "source[0], source[1] and 1 more" in text
    assert "waiting" in text
    assert "idle" not in text
    assert "ahead" not in text


def test_it_shows_what_is_idle_late_or_ahead() -> None:
    text = shown(row(idleInputs=["other"], lateRecords=12, recordsAhead=3, lagSeconds=-5.0))
    assert all(part in text for part in ("idle", "other", "late", "12", "ahead", "3", "-5"))
