"""Handles in notebooks: how they show themselves, and plots of their figures."""
