"""Faults of the structure of a zone, each planted by real files; importing the modules registers them."""

from tests.verify.faults import columns, files, folders, metadata, text, zone

__all__ = ["columns", "files", "folders", "metadata", "text", "zone"]
