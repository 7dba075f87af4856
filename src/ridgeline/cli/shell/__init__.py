"""`ridgeline shell`: all commands in one session, with completion, aliases, macros and scripts."""
