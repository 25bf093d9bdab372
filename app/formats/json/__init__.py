"""Strict JSON."""
