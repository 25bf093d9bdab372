"""Entries of a folder that are neither a regular file nor a folder."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    """Bound by a short name: an address may have 107 bytes."""
    with socket.socket(socket.AF_UNIX) as bound:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            bound.bind(f"/proc/self/fd/{folder}/{path.name[:20]}")
            (path.parent / path.name[:20]).rename(path)
        finally:
            os.close(folder)


def _dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def _looping_link(path: Path) -> None:
    path.symlink_to(path.name)


def _link_to_a_file(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    target.write_bytes(b"x")
    path.symlink_to(target)


ODD_FILES: Final[dict[str, Callable[[Path], None]]] = {
    "fifo": _fifo,
    "socket": _socket,
    "dangling link": _dangling_link,
    "looping link": _looping_link,
    "link to a file": _link_to_a_file,
}
