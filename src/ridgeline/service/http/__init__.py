"""REST under `/ws/v2/stram`, its description and its server-sent events."""
