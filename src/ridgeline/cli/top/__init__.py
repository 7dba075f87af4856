"""`ridgeline top` as a screen with tables, keys and actions; it needs the extra `ridgeline[top]`."""
