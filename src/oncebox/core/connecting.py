"""Outgoing connections: host names, trusted certificates, codes of connection errors."""

import ipaddress
import socket
import ssl

from oncebox.errors import ConfigInvalid

#: codes of connection failures, by the error that caused them; the first match counts
ErrorCodes = tuple[tuple[type[BaseException], str], ...]
NETWORK_ERROR_CODES: ErrorCodes = (
    (ssl.SSLCertVerificationError, "certificate_refused"),
    (ssl.SSLError, "tls_failed"),
    (socket.gaierror, "host_not_found"),
)


def is_host(text: str) -> bool:
    """Tell whether a text is a host name or an address."""
    try:
        return bool(text.encode("idna")) and text.isprintable() and " " not in text
    except UnicodeError:
        return False


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, without DNS."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def client_tls(ca: str = "") -> ssl.SSLContext:
    """Return a context that trusts the system's certificates and those of ``ca``, in PEM.

    Raises: ConfigInvalid.
    """
    context = ssl.create_default_context()
    if ca:
        try:
            context.load_verify_locations(cadata=ca)
        except (ssl.SSLError, ValueError):
            raise ConfigInvalid(
                "the CA certificates cannot be read; give them in PEM format"
            ) from None
    return context
