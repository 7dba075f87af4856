"""The outside of a running application: its start, REST, metrics, event logs."""
