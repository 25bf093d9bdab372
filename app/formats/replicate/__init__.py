"""Replicate."""
