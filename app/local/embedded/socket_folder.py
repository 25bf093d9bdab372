"""The private folder of the Postgres socket, and the link in the data directory that remembers it.

A socket's path may have 107 bytes, so the folder lies under the system's temporary folder, not in the data
directory. It has two levels: the outer one keeps every other account out, the inner one belongs to the
account Postgres runs as, which may be shared with other programs (`nobody`).
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from app.local.embedded.postgres_account import PostgresAccount

_PREFIX: Final = "mirrorgate-"
_LONGEST: Final = 107 - len("/.s.PGSQL.5432.lock")


def make_socket_folder(link: Path, account: PostgresAccount) -> Path:
    """A new private folder, handed over to `account` and remembered by the symbolic link `link`.

    If the process dies here: at most an empty folder is left in the temporary folder.
    """
    outer = Path(tempfile.mkdtemp(prefix=_PREFIX)).absolute()
    if len(bytes(outer / "s")) > _LONGEST:
        outer.rmdir()
        outer = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    inner = outer / "s"
    inner.mkdir(mode=0o700)
    account.hand_over(inner)
    link.unlink(missing_ok=True)
    link.symlink_to(inner)
    return inner


def remove_socket_folder(link: Path, owner: int) -> None:
    """Remove the folder that `link` remembers, if it is one of ours and belongs to `owner`, and the link."""
    if not link.is_symlink():
        return
    outer = link.readlink().parent
    if outer.name.startswith(_PREFIX) and outer.is_dir() and outer.lstat().st_uid == owner:
        shutil.rmtree(outer, ignore_errors=True)
    link.unlink()
