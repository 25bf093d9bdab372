"""Replicate metadata and tables."""
