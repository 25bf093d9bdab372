"""Writer."""
