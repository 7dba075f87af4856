"""Sizes of the browser in which tests look at pages."""

WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 800}
