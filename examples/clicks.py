"""Files to files: sessions of clicks with their users' countries, and the top pages of each minute.

Run it in this folder, where its data is: `ridgeline run clicks.py`. A line that is no click goes to `out/broken`.
Polars is needed: `pip install 'ridgeline[frames]'`.
"""

from datetime import datetime
from typing import NamedTuple

import polars as pl

from ridgeline import Application
from ridgeline.operators import FileOutput, FileReplayInput, session, tumbling
from ridgeline.operators import aggregate as agg


class Click(NamedTuple):
    user: str
    page: str
    time: datetime


class User(NamedTuple):
    user: str
    country: str


def visited(clicks: pl.LazyFrame) -> pl.LazyFrame:
    section = pl.col("page").str.split("/").list.get(1)
    return clicks.filter(pl.col("page") != "/health").with_columns(section=section)


app = Application("clicks", window="200ms", on_error="SKIP")
files = FileReplayInput("clicks-*.jsonl", format="jsonl", schema=Click, timestamp="time", lateness="10s")
clicks = app.read("clicks", files)
users = app.read("users", FileReplayInput("users.csv", format="csv", schema=User)).table(
    "by_user", key="user"
)

visits = clicks.transform("pages", visited)
sessions = (
    visits.group_by("user")
    .window(session("30m"))
    .aggregate("sessions", clicks=agg.count(), entry=agg.first("page"), exit=agg.last("page"))
)
sessions.join("home", users, on="user", how="left").write("sessions_out", FileOutput("out/sessions"))
top_pages = visits.window(tumbling("1m")).aggregate("top_pages", pages=agg.top("page", 10))
top_pages.write("pages_out", FileOutput("out/pages", format="jsonl"))
app.dead_letters(FileOutput("out/broken", format="jsonl"))
