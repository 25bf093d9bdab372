"""Damaged bytes for every decoder: `make fuzz` looks for new ones, the tests replay those that are kept."""
