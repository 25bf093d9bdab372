"""Damaged bytes for every decoder: `make fuzz` searches for new ones, and the tests replay those that are kept."""
