"""What an error of deltalake's object store means: a setting to correct, or a store that is away.

deltalake has one exception for all of them, so the text decides. Invariant: of an answer's body only its code and
message are shown. A rejected signature's body repeats the request with its session token.
"""

import re
from typing import Final

from deltalake.exceptions import DeltaError

from app.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable
from app.errors.store_faults import StoreFault, store_fault, without_queries

_MAX_TEXT: Final = 400
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
_OF_STORE: Final = re.compile(r"Kernel error|Generic \w+ error|Error performing |The operation lacked |Unknown scheme")
_ATTEMPT: Final = re.compile(r"Error performing (\w+) (\S+) in [\d.]+\S*?,?(?: after \d+ retries.*?)? - ")
_REQUEST: Final = re.compile(r"\b(?:GET|PUT|POST|HEAD|DELETE) \S+(?<!:)")
_NOISE: Final = re.compile(r"Kernel error -> |Generic \w+ error: |Error performing (?:list|token) request: ")

_CREDENTIALS: Final = (
    "Give credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AZURE_…) or with "
    "--storage-option. They need the rights to list, read, write and delete below the target."
)
_REMEDIES: Final = {
    StoreFault.NO_CREDENTIALS: _CREDENTIALS,
    StoreFault.MISSING: "Create the bucket or container, or correct the address of --to or MIRRORGATE_MIRROR_TARGET.",
    StoreFault.OTHER_REGION: "Give the bucket's region in AWS_REGION or with --storage-option aws_region=….",
    StoreFault.NO_TLS: "Give an https endpoint, or allow http with --storage-option aws_allow_http=true.",
    StoreFault.UNKNOWN_SCHEME: "Give a folder, abfss://… or s3://… with --to or MIRRORGATE_MIRROR_TARGET.",
    StoreFault.REJECTED: _CREDENTIALS,
}


def is_store_error(error: Exception) -> bool:
    """Return whether an error is of deltalake's object store, and not of the landing zone or this machine."""
    is_plain = isinstance(error, OSError) and error.errno is None
    return (is_plain or isinstance(error, DeltaError)) and _OF_STORE.search(_COLOR.sub("", str(error))) is not None


def store_error(what: str, error: Exception) -> MirrorgateError:
    """Return the error to raise. `what` names the target or table that was read or written.

    It is Misconfigured `bad_setting` if only another setting helps, otherwise TemporarilyUnavailable `mirror_away`.
    """
    if is_store_error(error):
        fault = store_fault(str(error))
        if fault is not None:
            return Misconfigured(Code.BAD_SETTING, f"{what}: {fault}: {shown(error)}", remedy=_REMEDIES[fault])
    return TemporarilyUnavailable(Code.MIRROR_AWAY, f"{what}: {shown(error)}")


def shown(error: Exception) -> str:
    """Return an error's text in one line: of a store's answer the code and message, of other errors the first line."""
    text = _COLOR.sub("", str(error)).strip()
    if not is_store_error(error):
        return next(iter(text.splitlines()), type(error).__name__)
    code, message = (re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL) for name in ("Code", "Message"))
    lines = (line.strip().removeprefix("↳").strip() for line in text.partition("<?xml")[0].splitlines())
    joined = ""
    for line in filter(None, lines):  # deltalake wraps long lines: only a capital or a status begins a new reason
        joined += f"{': ' if joined and not joined.endswith(' -') else ' '}{line}"
    joined = _ATTEMPT.sub(r"\1 \2: ", without_queries(joined.strip()))
    if code is not None:
        request = _REQUEST.search(joined)
        where = f"{request[0]}: " if request else ""
        joined = f"{where}{code[1]}" + (f": {message[1].splitlines()[0]}" if message and message[1] else "")
    return _NOISE.sub("", joined)[:_MAX_TEXT]
