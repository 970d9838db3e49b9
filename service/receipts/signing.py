"""The key that a service signs its receipts with: an Ed25519 key in a file of its own."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from livesvm.service.store.files import unfinished, write_whole

FILE = "receipts.key"
"""File in the data directory with the 32 bytes of the private key; only the service's user may read it."""


PUBLIC = "receipts.public"
"""File next to it with all public keys by which receipts were ever signed here, oldest first, one a line."""

PRIME, SIGN = 2**255 - 19, 2**255
"""The prime of the curve's field, and the bit of an encoded point that is the sign of x [RFC 8032, 5.1.2]."""
SMALL_ORDER = {0, 1, 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826}
"""y-coordinates, up to their sign, of the points of order 4, of orders 1 and 2, and of order 8."""


class Signer:
    """Signs with the private key in a file; if the file is missing at the first use, a new key is made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key: Ed25519PrivateKey | None = None

    def sign(self, data: bytes) -> str:
        """Return the signature of these bytes, in hex; raises OSError, or ValueError if the file holds no key."""
        return self._private().sign(data).hex()

    @property
    def public_key(self) -> str:
        """Public key that verifies the signatures, in hex; raises as :meth:`sign`."""
        return self._private().public_key().public_bytes_raw().hex()

    @property
    def public_keys(self) -> list[str]:
        """This public key and all earlier ones, oldest first; raises as :meth:`sign`."""
        return list(dict.fromkeys([*self._noted(), self.public_key]))

    def _private(self) -> Ed25519PrivateKey:
        if self._key is None:
            if not self._path.exists():
                unfinished(self._path).unlink(missing_ok=True)  # what is there may be readable by others
                write_whole(self._path, Ed25519PrivateKey.generate().private_bytes_raw())
            key = Ed25519PrivateKey.from_private_bytes(self._path.read_bytes())
            noted, public = self._noted(), key.public_key().public_bytes_raw().hex()
            if public not in noted:
                write_whole(self._path.with_name(PUBLIC), "\n".join([*noted, public, ""]).encode())
            self._key = key
        return self._key

    def _noted(self) -> list[str]:
        """Return the public keys in the file ``PUBLIC``; none if there is no such file."""
        try:
            return self._path.with_name(PUBLIC).read_text("ascii").split()
        except FileNotFoundError:
            return []


def is_signed(data: bytes, signature: str, public_key: str) -> bool:
    """Return whether a key, in hex, has signed these bytes; points of small order are refused."""
    try:
        key, signed = bytes.fromhex(public_key), bytes.fromhex(signature)
        if _has_small_order(key) or _has_small_order(signed[:32]):
            return False
        Ed25519PublicKey.from_public_bytes(key).verify(signed, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _has_small_order(point: bytes) -> bool:
    """Return whether a point of the curve has order 1, 2, 4 or 8; such a public key "signs" any bytes."""
    y = (int.from_bytes(point, "little") & ~SIGN) % PRIME
    return min(y, PRIME - y) in SMALL_ORDER
