"""Trust one certificate: that of a gateway on this machine, which need not name the machine."""

import ssl
from pathlib import Path


def trusting_only(certificate: Path) -> ssl.SSLContext:
    """Return a client's TLS context that trusts this certificate, or one it signed, and no other.

    Host names are not compared.

    Raises OSError for a file that is not a certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    return context
