"""The commands that ask a running application, or an event log."""
