"""The outside of a running application: its start, REST, metrics, event logs."""

BASE = "/ws/v2/stram"
"""Where all questions and requests begin, as Apex's did."""
