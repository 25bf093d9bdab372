"""Trust one certificate: that of a gateway on this machine, which need not name the machine."""

import ssl
from pathlib import Path
from typing import Final

_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which Python does not name."""


def trusting_only(certificate: Path) -> ssl.SSLContext:
    """Return a client's TLS context that trusts this certificate, or one it signed, and no other.

    Host names are not compared, and it may have expired: its file says which one the gateway has, and `mirrorgate up`
    would wait for a gateway that serves.

    Raises OSError for a file that is not a certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    context.load_verify_locations(certificate)
    return context
