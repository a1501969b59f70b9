"""Messages about certificates of servers that are not accepted: the cause, and the setting that changes it."""

from __future__ import annotations

import ssl

_EXPIRED = 10
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
"""Codes of X509_verify(3) of OpenSSL."""


def certificate_error(error: BaseException | None, ca_setting: str) -> str | None:
    """Return why a server's certificate is not accepted, with what to do; None if another error is the cause.

    Args:
        error: an exception whose causes are searched.
        ca_setting: the setting that holds the file of trusted CAs.

    >>> unknown = ssl.SSLCertVerificationError()
    >>> unknown.verify_code, unknown.verify_message = 18, "self-signed certificate"
    >>> certificate_error(unknown, "SSL_CERT_FILE")
    'its certificate is not trusted (self-signed certificate); set SSL_CERT_FILE to the file of its CA'
    >>> certificate_error(OSError(), "SSL_CERT_FILE")
    """
    while error is not None:
        # Classes of HTTP clients that derive from it lack the code; the error that they wrap has it.
        if isinstance(error, ssl.SSLCertVerificationError) and hasattr(error, "verify_code"):
            break
        error = error.__cause__ or error.__context__
    else:
        return None
    code, reason = error.verify_code, error.verify_message.rstrip(".")
    if code == _EXPIRED:
        return "its certificate has expired; renew it on the server"
    if code in (_OTHER_HOST, _OTHER_ADDRESS):
        return f"its certificate is for another host ({reason}); use a host name that the certificate has"
    return f"its certificate is not trusted ({reason}); set {ca_setting} to the file of its CA"
