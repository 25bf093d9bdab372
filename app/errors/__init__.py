"""Errors."""
