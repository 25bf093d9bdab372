"""Findings about the comparison with a Delta table (`--against`)."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry
from app.verify.codes import FindingCode

COMPARISON: Final[Mapping[FindingCode, Entry]] = {}
