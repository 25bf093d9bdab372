"""Faults of the structure of a zone, each planted by real files; importing the modules registers them."""

from tests.verify.faults import contents, folders
from tests.verify.planting import PLANTED, Planted

__all__ = ["PLANTED", "Planted", "contents", "folders"]
