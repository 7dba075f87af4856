"""The answers to every question about an application, as types: `TypedDict`s whose fields say what they hold.

Answers are plain data for JSON. Names are camelCase with their units. Times of day are seconds since 1970 by
STRAM's clock. Null is what is not known. The OpenAPI description of the web service is made from these
types, so a field that is added here is described there.
"""
