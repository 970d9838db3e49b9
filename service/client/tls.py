"""The certificate authorities that clients trust, and advice in errors about untrusted certificates."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx

Verify = ssl.SSLContext | str | Path | bool
_NAMES = frozenset({62, 64})
"""OpenSSL's error numbers for certificates of other names or addresses."""
_TIMES = frozenset({9, 10})
"""OpenSSL's error numbers for certificates that are not yet valid, or have expired."""
_BROKEN_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


def trusted(url: httpx.URL, verify: Verify) -> ssl.SSLContext:
    """Return a TLS context with the trusted certificate authorities; raises OSError if their files cannot be read.

    Parameters
    ----------
    verify : a file in PEM or a directory of them by hash; True: those of SSL_CERT_FILE and SSL_CERT_DIR, or else the
        public ones; False: no certificate is checked
    """
    if isinstance(verify, ssl.SSLContext):
        return verify
    if url.scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading authorities takes longer than a call
    if verify is False:
        return httpx.create_ssl_context(verify=False)
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if verify is not True:
        file, directory = (None, str(verify)) if Path(verify).is_dir() else (str(verify), None)
    return _read(file, directory) if file or directory else _public()


def _read(file: str | None, directory: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"no certificate authorities can be read from {file}: {reason}; name a PEM file") from error


@cache
def _public() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def fault_of(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error that caused an error; None if there is none, or if the next attempt may succeed."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return None if isinstance(error, _BROKEN_OFF) else error
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def explained() -> Iterator[None]:
    """Add advice to an error in the ``with`` block about a certificate that is not trusted."""
    try:
        yield
    except httpx.ConnectError as error:
        fault = fault_of(error)
        if not isinstance(fault, ssl.SSLCertVerificationError):
            raise
        advice = "name the PEM file of its certificate authority in SSL_CERT_FILE, or give it to the client as verify="
        if fault.verify_code in _NAMES:
            advice = "call the service by a name that its certificate has"
        elif fault.verify_code in _TIMES:
            advice = "renew it, or set this machine's clock"
        reason = fault.verify_message.rstrip(".")
        raise httpx.ConnectError(f"its certificate is not trusted ({reason}): {advice}") from error
