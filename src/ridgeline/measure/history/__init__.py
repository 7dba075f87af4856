"""The history of operators and of the application over hours, in steps."""
