"""Files to files: sessions of clicks with their users' countries, and the top pages of each minute.

Run it in this folder, where its data is: `ridgeline run clicks.py`. It reads files as they come into `in`, until
Ctrl-C; with `-D clicks.until=end -D users.until=end` it ends after those that are there. A line that is no click
goes to `out/broken`. Polars is needed: `pip install 'ridgeline[frames]'`.
"""

from datetime import datetime
from typing import NamedTuple

from ridgeline import Application
from ridgeline.operators import FileInput, FileOutput, session, tumbling
from ridgeline.operators import aggregate as agg


class Click(NamedTuple):
    user: str
    page: str
    time: datetime


class User(NamedTuple):
    user: str
    country: str


app = Application("clicks", window="200ms", on_error="SKIP")
clicks = FileInput("in/clicks-*.jsonl.gz", schema=Click, timestamp="time", lateness="10s")  # also new ones
visits = app.read("clicks", clicks).filter("pages", "page <> '/health'")
users = app.read("users", FileInput("in/users.csv", schema=User)).table("by_user", key="user")

visit = visits.group_by("user").window(session("30m"))
sessions = visit.aggregate("sessions", clicks=agg.count(), entry=agg.first("page"), exit=agg.last("page"))
home = sessions.join("home", users, on="user", how="left")
home.write("sessions_out", FileOutput("out/sessions", partition_by=["country"]))

minutes = visits.window(tumbling("1m")).aggregate("top_pages", pages=agg.top("page", 10))
minutes.write("pages_out", FileOutput("out/pages", format="jsonl"))
app.dead_letters(FileOutput("out/broken", format="jsonl"))
