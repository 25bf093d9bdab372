"""Findings about rows and keys."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry
from app.verify.codes import FindingCode

ROWS: Final[Mapping[FindingCode, Entry]] = {}
