"""The private folder of the Postgres socket, and the link to it in the data directory.

The path of a socket is limited to 107 bytes, so the folder is below the system's temporary folder, not in the data
directory. It has two levels: the outer folder keeps every other account out, the inner one belongs to the account of
Postgres, which other programs may share (`nobody`).
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from app.local.embedded.postgres_account import PostgresAccount

_PREFIX: Final = "mirrorgate-"
_MAX_PATH_BYTES: Final = 107 - len("/.s.PGSQL.5432.lock")


def make_socket_folder(link: Path, account: PostgresAccount) -> Path:
    """Create a private folder that belongs to `account`, and the symbolic link `link` to it.

    After a crash here, at most an empty folder is left in the temporary folder.
    """
    outer = Path(tempfile.mkdtemp(prefix=_PREFIX)).absolute()
    if len(bytes(outer / "s")) > _MAX_PATH_BYTES:
        outer.rmdir()
        outer = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    inner = outer / "s"
    inner.mkdir(mode=0o700)
    account.hand_over(inner)
    link.unlink(missing_ok=True)
    link.symlink_to(inner)
    return inner


def remove_socket_folder(link: Path, owner: int) -> None:
    """Remove `link` and the folder it points to, if Mirrorgate created that and it belongs to `owner`."""
    if not link.is_symlink():
        return
    outer = link.readlink().parent
    if outer.name.startswith(_PREFIX) and outer.is_dir() and outer.lstat().st_uid == owner:
        shutil.rmtree(outer, ignore_errors=True)
    link.unlink()
