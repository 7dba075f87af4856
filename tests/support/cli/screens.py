"""The screen of `ridgeline top` without a terminal: keys are pressed, and what is drawn is read."""

import asyncio

from ridgeline.cli.remote.client import Client
from ridgeline.cli.top.screen import TopScreen
from ridgeline.cli.top.table import OperatorTable
from support.waiting import PATIENCE_SECONDS


class Screen:
    """A screen that runs: what is on it, and keys pressed."""

    def __init__(self, app, pilot, client):
        self.app, self.pilot, self.client = app, pilot, client

    def text(self, name):
        """The plain text of a part of the screen, as it is drawn."""
        widget = self.app.query_one(f"#{name}")
        return "\n".join(
            "".join(segment.text for segment in widget.render_line(y)).rstrip()
            for y in range(widget.size.height)
        )

    def titles(self):
        return [row.title for row in self.app.query_one(OperatorTable).rows]

    async def until(self, condition, what):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await self.pilot.pause(0.02)
        assert condition(), what


def on_screen(url, check, size=(120, 40), name="payments", token=None):
    """Open the screen without a terminal, and call `check` with it."""

    async def run():
        client = Client(url, token)
        app = TopScreen(client, name)
        async with app.run_test(size=size) as pilot:
            screen = Screen(app, pilot, client)
            await screen.until(lambda: screen.titles() or app.query_one("#notice").has_class("shown"), "rows")
            await check(screen)
        return app

    return asyncio.run(run())
