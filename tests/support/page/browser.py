"""The browser in which tests look at pages: its sizes, and what is done again and again."""

from support.waiting import PATIENCE_SECONDS

WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 800}


def confirm(dialog):
    """Confirm a change in its dialog, which is closed once the change is applied."""
    from playwright.sync_api import expect

    dialog.get_by_role("button", name="Confirm").click()
    expect(dialog).to_contain_text("applied", timeout=1000 * PATIENCE_SECONDS)
    dialog.get_by_role("button", name="Close").last.click()
