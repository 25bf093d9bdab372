"""Recognize what an error of an object store means, by the text of Rust's crate `object_store`, and hide its secrets.

deltalake and obstore both build on that crate, and give one exception for most of its errors, so the text decides.
"""

import re
from enum import StrEnum
from typing import Final


class StoreFault(StrEnum):
    """A fault that only another setting fixes, in the words of an error's detail."""

    NO_CREDENTIALS = "there are no credentials for it"
    MISSING = "it does not exist"
    OTHER_REGION = "it is in another region"
    NO_TLS = "its endpoint has no TLS"
    UNKNOWN_SCHEME = "its address has an unknown scheme"
    REJECTED = "it rejects the credentials"


_PATTERNS: Final = {
    StoreFault.NO_CREDENTIALS: re.compile(
        r"169\.254\.169\.254|latest/api/token|token request|az account get-access-token|MissingCredentials"
        r"|metadata\.google\.internal"
    ),
    StoreFault.MISSING: re.compile(
        r"NoSuchBucket|ContainerNotFound|FilesystemNotFound|WorkspaceNotFound|ArtifactNotFound"
    ),
    StoreFault.OTHER_REGION: re.compile(
        r"incorrectly configured region|PermanentRedirect|AuthorizationHeaderMalformed"
    ),
    StoreFault.NO_TLS: re.compile(r"URL scheme is not allowed|BadScheme"),
    StoreFault.UNKNOWN_SCHEME: re.compile(r"Unknown scheme"),
    StoreFault.REJECTED: re.compile(
        r"40[13] (?:Forbidden|Unauthorized)|lacked (?:the necessary privileges|valid authentication)|AccessDenied"
        r"|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|AuthenticationFailed"
    ),
}


_USER: Final = re.compile(r"(https?://)[^\s/?]*@")
_QUERY: Final = re.compile(r"(https?://[^\s?]+)\?\S*?(?=:?(?:\s|$))")


def without_queries(text: str) -> str:
    """Return a string without passwords and queries of its addresses, such as a signature, whose times have colons."""
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text))


def store_fault(text: str) -> StoreFault | None:
    """Return what the text of an error means; None for a store that is unreachable, and for any other error."""
    return next((fault for fault, pattern in _PATTERNS.items() if pattern.search(text)), None)
