"""Faults of the structure of a zone, each planted by real files; importing the modules registers them."""

from tests.verify.faults import columns, files, folders, metadata, text, zone
from tests.verify.planting import PLANTED, Planted

__all__ = ["PLANTED", "Planted", "columns", "files", "folders", "metadata", "text", "zone"]
