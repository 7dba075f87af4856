"""The aggregates: a class of rules for each kind, and the function that users call beside it."""
