"""Arcion."""
