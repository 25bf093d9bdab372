"""The headers of every answer of the console, also of errors.

The policy allows only files of this server, no inline script or style, no frame and no other target of a form. A page
can show names of tables, reasons and producers that others chose, so a missed escape must not run a script.
"""

from typing import Final

PREFIX: Final = "/console"
"""Start of the paths that are answered with pages."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

PAGE_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # `no-referrer` would make the Origin of each form `null`
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"x-robots-tag", b"noindex"),
)

NOT_STORED: Final = (b"cache-control", b"no-store")
"""For answers that do not say how long they are kept."""


def is_page_path(path: str) -> bool:
    """Tell whether a path is one of the console."""
    return path.startswith(PREFIX) and path[len(PREFIX) : len(PREFIX) + 1] in ("", "/")
