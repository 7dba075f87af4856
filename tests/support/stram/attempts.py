"""Attempts in slots, as the driver's executor begins and sends them."""

from ridgeline.plan.protocol import WindowRequest
from ridgeline.stram.slot_attempts import SlotAttempts


def attempts_of(plan):
    return SlotAttempts({container.id: container.stage for container in plan.execution.containers})


def send(attempts, window_id, now, number=0, *, restores=False):
    """Have slots run a window."""
    request = WindowRequest(window_id, number, 1, states={} if restores else None)
    attempts.begin(request, complete=True)
    return attempts.sent(request, now)
