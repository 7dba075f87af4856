"""The view that people have of a run: subscribers, log lines, tables. Decides nothing."""
