"""The events of the Yahoo Streaming Benchmark as its generator makes them: JSON lines of strings."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections import Counter
from pathlib import Path

FILES = 2
"""In a window."""
FILE_EVENTS = 200_000
CAMPAIGNS = 100
ADS_PER_CAMPAIGN = 10
BUCKET_MILLISECONDS = 10_000
_FIRST_MILLISECOND = 1_700_000_000_000
_SPAN_MILLISECONDS = 60_000
_AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
_EVENT_TYPES = ("view", "click", "purchase")

Counts = dict[tuple[str, int], int]
"""How many views there were of each campaign and bucket of 10 seconds of event time."""


def campaigns(folder: Path) -> dict[str, str]:
    """The campaign of each of the 1,000 ads."""
    found: dict[str, str] = json.loads((folder / "campaigns.json").read_text(encoding="utf-8"))
    return found


def events(folder: Path) -> Path:
    """The folder with the events' files."""
    return folder / "events"


def file_paths(folder: Path, windows: int) -> list[Path]:
    """The files of so many windows."""
    return [events(folder) / f"{number:06d}.json" for number in range(windows * FILES)]


def write(folder: Path, windows: int) -> None:
    """Make and count events for some windows: links to one file, so that the data lie in memory."""
    source = random.Random(1)
    ads = {
        _uuid(source): campaign
        for campaign in [_uuid(source) for _ in range(CAMPAIGNS)]
        for _ in range(ADS_PER_CAMPAIGN)
    }
    users, pages = [_uuid(source) for _ in range(100)], [_uuid(source) for _ in range(100)]
    (folder / "campaigns.json").write_text(json.dumps(ads), encoding="utf-8")
    events(folder).mkdir(exist_ok=True)
    first, *others = file_paths(folder, windows)
    names = list(ads)
    with first.open("w", encoding="utf-8") as file:
        for number in range(FILE_EVENTS):
            event = {
                "user_id": source.choice(users),
                "page_id": source.choice(pages),
                "ad_id": source.choice(names),
                "ad_type": source.choice(_AD_TYPES),
                "event_type": source.choice(_EVENT_TYPES),
                "event_time": str(_FIRST_MILLISECOND + number * _SPAN_MILLISECONDS // FILE_EVENTS),
                "ip_address": "1.2.3.4",
            }
            file.write(json.dumps(event) + "\n")
    for other in others:
        os.link(first, other)


def recount(folder: Path, windows: int) -> Counts:
    """What the counts must be after so many windows: counted from the log itself, line by line."""
    of_ad = campaigns(folder)
    counts: Counter[tuple[str, int]] = Counter()
    with file_paths(folder, 1)[0].open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if event["event_type"] == "view":
                counts[
                    of_ad[event["ad_id"]],
                    int(event["event_time"]) // BUCKET_MILLISECONDS * BUCKET_MILLISECONDS,
                ] += 1
    return {key: count * windows * FILES for key, count in counts.items()}


def _uuid(source: random.Random) -> str:
    return str(uuid.UUID(int=source.getrandbits(128), version=4))
