"""What people see of a run: subscribers, log lines, tables. Decides nothing."""
