"""A reader of Thrift's compact protocol, in which Parquet footers are written.

PyArrow's own access to the metadata of column chunks aborts the process for some footers, such as one with encrypted
columns: its C++ exceptions have no Python side. A check of foreign files must survive them (decision 0040). Invariant:
any bytes give a value or ValueError, in time and memory proportional to their number.
"""

from typing import Any, Final

MAX_DEPTH: Final = 32

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


def read_struct(content: bytes) -> dict[int, Any]:
    """Return a structure as its field ids with their values: numbers, bytes, lists and structures.

    Maps are skipped. Raise ValueError for bytes that are no structure.
    """
    try:
        return _Reader(content).struct(0)
    except IndexError:
        raise ValueError("it ends too early") from None


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (header := self._byte()) & 0x0F != _STOP:
            delta = header >> 4
            number = number + delta if delta else self._signed()
            kind = header & 0x0F
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _MAP:
            return self._map(depth)
        if kind in (_TRUE, _FALSE, _BYTE):  # within a list, a boolean is a byte
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        raise ValueError(f"it has a value of unknown kind {kind}")

    def _list(self, depth: int) -> list[Any]:
        header = self._byte()
        count = self._unsigned() if header >> 4 == 15 else header >> 4
        return [self._value(header & 0x0F, depth + 1) for _ in range(self._counted(count))]

    def _map(self, depth: int) -> None:
        count = self._unsigned()
        kinds = self._byte() if count else 0
        for _ in range(self._counted(count)):
            self._value(kinds >> 4, depth + 1)
            self._value(kinds & 0x0F, depth + 1)

    def _counted(self, count: int) -> int:
        """Return a number of elements, each of which takes at least one byte."""
        if count > len(self._content) - self._at:
            raise ValueError("it has more elements than bytes")
        return count

    def _byte(self) -> int:
        value = self._content[self._at]
        self._at += 1
        return value

    def _bytes(self, count: int) -> bytes:
        start, self._at = self._at, self._at + self._counted(count)
        return self._content[start : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("it has a number of more than 64 bits")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
