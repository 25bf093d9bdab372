"""The Delta tables of an object store, listed with Arrow's file systems: deltalake cannot list tables."""

from collections.abc import Mapping
from typing import Any, Final

from pyarrow import fs

_LOG_FOLDER: Final = "_delta_log"
_S3_ARGUMENTS: Final = {
    "aws_access_key_id": "access_key",
    "aws_secret_access_key": "secret_key",
    "aws_session_token": "session_token",
    "aws_region": "region",
}
"""Options of deltalake, and the arguments of Arrow's S3 file system."""


def remote_tables(location: str, options: Mapping[str, str]) -> list[str]:
    """Return the names of the Delta tables below an address, in any order. Raise OSError if the store fails.

    Two levels are listed: `<schema>/<table>` and `<table>`.
    """
    files, root = _file_system(location, {name.lower(): value for name, value in options.items()})
    found: list[str] = []
    for name in _folders(files, root):
        if _is_table(files, f"{root}/{name}"):
            found.append(name)
            continue
        found += [
            f"{name}/{table}"
            for table in _folders(files, f"{root}/{name}")
            if _is_table(files, f"{root}/{name}/{table}")
        ]
    return found


def _file_system(location: str, options: Mapping[str, str]) -> tuple[Any, str]:
    scheme, _, path = location.partition("://")
    if scheme in ("s3", "s3a"):
        arguments: dict[str, Any] = {
            argument: options[name] for name, argument in _S3_ARGUMENTS.items() if name in options
        }
        if endpoint := options.get("aws_endpoint_url"):
            arguments["scheme"], _, arguments["endpoint_override"] = endpoint.partition("://")
        return fs.S3FileSystem(**arguments), path.rstrip("/")
    found, root = fs.FileSystem.from_uri(location)
    return found, root.rstrip("/")


def _folders(files: Any, root: str) -> list[str]:
    entries = files.get_file_info(fs.FileSelector(root, allow_not_found=True))
    names = [entry.base_name for entry in entries if entry.type is fs.FileType.Directory]
    return sorted(name for name in names if not name.startswith("_"))  # such as the lease of the target


def _is_table(files: Any, path: str) -> bool:
    return files.get_file_info(f"{path}/{_LOG_FOLDER}").type is fs.FileType.Directory
