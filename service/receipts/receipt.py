"""Receipts of erasures: signed JSON in one canonical form.

A receipt proves that the owner of its public key, a service, declared the listed steps done. The listed salted hashes
are those of the erased examples' keys. A receipt says nothing about backups, replicas, disks below the files, or copies
that clients keep.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import Any

from livesvm.service.receipts.signing import Signer, is_signed

Document = dict[str, Any]
Key = int | str

HASH = "HMAC-SHA256 under the salt, of the key as JSON"
_FORMS: tuple[dict[str, Any], ...] = (
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (",", ":")},
    {"ensure_ascii": False},
    {},
    {"indent": 2, "ensure_ascii": False},
    {"indent": 2},
)
"""JSON forms of a receipt: that of our answers, and those of ``json.dumps`` and jq. Others count as changed."""
_SIGNATURE = re.compile("[0-9a-f]{128}")


class BadReceipt(Exception):
    """The file is no receipt, or was changed after a service signed it."""


def hashed(salt: bytes, name: Key) -> str:
    """Return the digest of a key, or of a request's name, in hex; guesses of it cannot be checked without the salt."""
    return hmac.new(salt, json.dumps(name, ensure_ascii=False).encode(), hashlib.sha256).hexdigest()


def signed(receipt: Document, signer: Signer) -> Document:
    """Return the receipt with the signer's public key and signature added; raises OSError or ValueError."""
    whole = receipt | {"public_key": signer.public_key}
    return whole | {"signature": signer.sign(_plain(whole))}


def verified(data: bytes, public_key: str | None = None) -> Document:
    """Check the signature of a receipt in the bytes of a file, and return the receipt.

    Raises BadReceipt if any byte was changed, or if it was signed with another key than ``public_key``.
    """
    try:
        receipt = json.loads(data, parse_constant=_refuse)
        text = data.decode().removesuffix("\n")
        is_as_written = any(text == json.dumps(receipt, **form) for form in _FORMS)
    except (ValueError, RecursionError) as error:
        raise BadReceipt(f"it is no JSON: {error}") from error
    if not isinstance(receipt, dict) or not all(isinstance(receipt.get(n), str) for n in ("signature", "public_key")):
        raise BadReceipt("it holds no signature")
    if not is_as_written:
        raise BadReceipt("it is not written as a receipt is")
    rest = {name: value for name, value in receipt.items() if name != "signature"}
    if [*receipt][-1] != "signature" or not _SIGNATURE.fullmatch(receipt["signature"]):
        raise BadReceipt("it is not written as a receipt is")
    try:
        plain = _plain(rest)
    except ValueError as error:
        raise BadReceipt(f"it is no text: {error}") from error
    if not is_signed(plain, receipt["signature"], receipt["public_key"]):
        raise BadReceipt("its signature is not of this content")
    if public_key is not None and public_key.lower() != receipt["public_key"]:
        raise BadReceipt(f"it was signed by another key, {receipt['public_key']}")
    if not _tells_of_an_erasure(receipt):
        raise BadReceipt("what was signed is no receipt of an erasure")
    return receipt


def _tells_of_an_erasure(receipt: Document) -> bool:
    keys = receipt.get("keys")
    if not isinstance(keys, dict) or not isinstance(keys.get("hashes"), list) or not isinstance(keys.get("count"), int):
        return False
    salt = keys.get("salt")
    texts = isinstance(salt, str) and all(isinstance(receipt.get(n), str) for n in ("receipt", "model", "erased_at"))
    return texts and re.fullmatch("[0-9a-f]*", str(salt)) is not None and len(str(salt)) % 2 == 0


def names(receipt: Document, key: Key) -> bool:
    """Return whether a receipt lists this key."""
    keys = receipt["keys"]
    return hashed(bytes.fromhex(keys["salt"]), key) in keys["hashes"]


def names_tag(receipt: Document, tag: str) -> bool:
    """Return whether a receipt lists this tag of examples."""
    keys = receipt["keys"]
    return hashed(bytes.fromhex(keys["salt"]), tag) in keys.get("tags", [])


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _plain(receipt: Document) -> bytes:
    return json.dumps(receipt, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
