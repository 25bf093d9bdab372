"""Masks values as soon as they are typed, so that neither row images nor payloads nor files have the originals.

Invariant: within a scope, which is one table or a declared group, equal values have equal hashes in all formats under
one secret, so a hashed key remains a key. Across scopes they differ, so that no table tells the hashes of another.
"""

import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.access.mask_secret import MaskSecret
from app.domain.model.change import SourceValue
from app.domain.model.projection.transforms import Mask, MaskMethod
from app.domain.model.table import Table
from app.domain.rows.shaped_changes import Values
from app.errors import Code, TemporarilyUnavailable


@dataclass(frozen=True, slots=True)
class Masking:
    """The masks of a table, and what its hashes need."""

    table: Table
    secret: MaskSecret | None = None
    """The secret of this process."""

    def arrays(self, arrays: Sequence[pa.Array], names: Sequence[str]) -> list[pa.Array]:
        """Return typed columns with these names, then other ones, with masked values.

        Raises TemporarilyUnavailable `mask_secret_missing` or `mask_secret_differs`.
        """
        return [*map(self._masked, arrays, names), *arrays[len(names) :]]

    def batch(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Do for a typed batch what `arrays` does."""
        return pa.RecordBatch.from_arrays(self.arrays(batch.columns, names), schema=batch.schema)

    def rows(
        self, rows: Sequence[Sequence[SourceValue]], masked: Sequence[pa.Array], names: Sequence[str]
    ) -> Sequence[Values]:
        """Return rows of source values with those of masked columns, for row images."""
        places = {at: masked[at].to_pylist() for at, name in enumerate(names) if name in self.table.options.masks}
        return [*self._replaced(rows, places)]

    def _replaced(
        self, rows: Sequence[Sequence[SourceValue]], places: Mapping[int, Sequence[str | None]]
    ) -> Iterator[Values]:
        for number, row in enumerate(rows):
            values = [*row]
            for at, masked in places.items():
                values[at] = masked[number]
            yield tuple(values)

    def _masked(self, array: pa.Array, name: str) -> pa.Array:
        mask = self.table.options.masks.get(name)
        if mask is None:
            return array
        if mask.method is MaskMethod.NULL:
            return pa.nulls(len(array), array.type)
        if mask.method is MaskMethod.TRUNCATE:
            return pc.utf8_slice_codeunits(array, 0, mask.characters)
        return self._hashed(array, mask)

    def _hashed(self, array: pa.StringArray, mask: Mask) -> pa.StringArray:
        """Return the keyed hashes of texts. Arrow has no kernel for them, so each distinct text is hashed once."""
        key = self._own_secret().key_of(_scope(mask, self.table))
        encoded = array.dictionary_encode()
        hashes = [hmac.digest(key, text.encode(), sha256).hex() for text in encoded.dictionary.to_pylist()]
        return pa.array(hashes, pa.string()).take(encoded.indices)

    def _own_secret(self) -> MaskSecret:
        """Return the secret of this process, if the rows of the table are hashed under it."""
        if self.secret is None:
            detail = f"table {self.table.name} has a hashed column, and this process has no secret"
            raise TemporarilyUnavailable(Code.MASK_SECRET_MISSING, detail)
        if not self.secret.made(self.table.mask_fingerprint):
            detail = f"table {self.table.name} is hashed under another secret than that of this process"
            raise TemporarilyUnavailable(Code.MASK_SECRET_DIFFERS, detail)
        return self.secret


def _scope(mask: Mask, table: Table) -> str:
    """Return what the hashes of a column share with others (decision 0071): a table is known by its number.

    The number stays over a rename, a rebuild and a recreation, and no other table ever has it.
    """
    return f"table:{table.table_id}" if mask.group is None else f"group:{mask.group}"
