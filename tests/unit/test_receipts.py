"""Receipts: what was signed verifies, whoever wrote it down as JSON is written; with any byte changed it does not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.cli.main import main
from livesvm.service.receipts.receipt import BadReceipt, hashed, names, signed, verified
from livesvm.service.receipts.signing import FILE, PRIME, PUBLIC, SIGN, SMALL_ORDER, Signer, is_signed

ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group that keys are in [RFC 8032, 5.1]."""
CONTENT: dict[str, Any] = {
    "receipt": "e-0123456789ab",
    "model": "spiral",
    "erased_at": "2026-11-23T12:00:00+00:00",
    "asked_by": "die Ärztin \U0001f512",
    "version_before": 4,
    "keys": {"count": 2, "salt": "00" * 32, "hashes": [hashed(bytes(32), "anna"), hashed(bytes(32), 7)]},
    "certificate": {"relative_gap": 1e-15, "primal": -2.5, "dual": 0.0, "robust": None, "is_good": True},
    "places": {"window": "solved without them"},
}
FORMS: list[dict[str, Any]] = [
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (",", ":")},
    {"ensure_ascii": False},
    {},
    {"indent": 2, "ensure_ascii": False},
    {"indent": 2},
]


@pytest.fixture(scope="module")
def receipt(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return signed(CONTENT, Signer(tmp_path_factory.mktemp("key") / FILE))


def refused(data: bytes) -> bool:
    try:
        verified(data)
    except BadReceipt:
        return True
    return False


@pytest.mark.parametrize("form", FORMS)
def test_as_json_is_written(form: dict[str, Any], receipt: dict[str, Any]) -> None:
    text = json.dumps(receipt, **form).encode()
    assert verified(text) == verified(text + b"\n", receipt["public_key"]) == receipt
    assert names(receipt, "anna")
    assert names(receipt, 7)
    assert not names(receipt, "7")


@given(data=st.data())
def test_any_other_byte_is_refused(data: st.DataObject, receipt: dict[str, Any]) -> None:
    """Bytes put in, taken out, or put instead of others, anywhere."""
    text = json.dumps(receipt, **data.draw(st.sampled_from(FORMS))).encode()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 3)))
    put = data.draw(
        st.one_of(st.binary(max_size=3), st.sampled_from([b" ", b"\n", b"\t", b"0", b"\\u0020", b"\xef\xbb\xbf"]))
    )
    changed = text[:start] + put + text[end:]
    if changed not in (text, text + b"\n"):
        assert refused(changed)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every field, and to everything in it."""
    if path:
        yield path
    for step, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from leaves(inner, (*path, step))


def test_every_field_is_signed(receipt: dict[str, Any]) -> None:
    """Whatever its value becomes, or when it goes; with its number written otherwise too."""
    for path in leaves(receipt):
        others: list[Any] = [None, 0, 1.0, "", "x", [], {}, True]
        for other in others:
            changed = json.loads(json.dumps(receipt))
            inside = changed
            for step in path[:-1]:
                inside = inside[step]
            if json.dumps(inside[path[-1]]) == json.dumps(other):
                continue
            inside[path[-1]] = other
            assert refused(json.dumps(changed).encode()), (path, other)
        del inside[path[-1]]
        assert refused(json.dumps(changed).encode()), path


SMALL = [0, 1, PRIME - 1, *(y for one in SMALL_ORDER - {0, 1} for y in (one, PRIME - one))]


@pytest.mark.parametrize("sign", [0, SIGN])
@pytest.mark.parametrize("y", [*SMALL, PRIME, PRIME + 1])
def test_a_key_that_signs_everything_is_none(y: int, sign: int) -> None:
    """With it the rest of a signature need not know what was signed: of the neutral point, whatever that was."""
    point = (y | sign).to_bytes(32, "little").hex()
    seed = bytes(32)
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little") & ~7 & ((1 << 254) - 1) | 1 << 254
    multiple = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw().hex()
    for data in map(str.encode, map(str, range(16))):
        for begin, factor in ((multiple, scalar % ORDER), (point, 0)):
            assert not is_signed(data, begin + factor.to_bytes(32, "little").hex(), point)
    assert not is_signed(b"", point + "00" * 32, multiple)


def test_order_names_that_stand_twice_and_numbers_written_otherwise(receipt: dict[str, Any]) -> None:
    text = json.dumps(receipt)
    assert refused(json.dumps(dict(reversed(receipt.items()))).encode())
    assert refused(json.dumps(receipt | {"more": 1}).encode())
    assert refused(text.replace('"model": "spiral"', '"model": "other", "model": "spiral"').encode())
    assert refused(text.replace('"primal": -2.5', '"primal": -2.50').encode())
    assert refused(text.replace('"primal": -2.5', '"primal": -25e-1').encode())
    assert refused(text.replace('"version_before": 4', '"version_before": 4.0').encode())
    assert refused(text.replace('"dual": 0.0', '"dual": -0.0').encode())
    assert refused(text.replace('"dual": 0.0', '"dual": NaN').encode())
    signature = receipt["signature"]
    for other in (signature.upper(), f" {signature}", f"{signature[:64]} {signature[64:]}", signature + "00", ""):
        assert refused(json.dumps(receipt | {"signature": other}).encode()), other
    for data in (
        b"",
        b"[]",
        b"{}",
        b"null",
        b'"x"',
        b"\xff",
        b"[" * 100_000,
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + text.encode(),
    ):
        assert refused(data)


def test_a_receipt_signed_again_with_another_key_is_recognized(receipt: dict[str, Any], tmp_path: Path) -> None:
    forger = Signer(tmp_path / FILE)
    forged = json.dumps(signed(CONTENT | {"version_before": 1}, forger)).encode()
    assert verified(forged)["version_before"] == 1  # by itself a file says only that it was not changed later
    with pytest.raises(BadReceipt, match="another key"):
        verified(forged, receipt["public_key"])
    no_salt = CONTENT | {"keys": CONTENT["keys"] | {"salt": "0g"}}
    contents: list[dict[str, Any]] = [{}, {"keys": {}}, no_salt, CONTENT | {"model": 1}]
    for content in contents:
        assert refused(json.dumps(signed(content, forger)).encode())
    file = tmp_path / "receipt.json"
    file.write_bytes(forged)
    assert main(["receipt", "verify", str(file)]) == 0
    assert main(["receipt", "verify", str(file), "--key", forger.public_key.upper()]) == 0
    assert main(["receipt", "verify", str(file), "--key", receipt["public_key"]]) == 1
    assert main(["receipt", "verify", str(tmp_path / "none.json")]) == 2


def test_keys_of_before_stay_known_as_the_services_own(tmp_path: Path) -> None:
    path = tmp_path / FILE
    first = Signer(path).public_key
    assert Signer(path).public_keys == [first]
    path.unlink()
    again = Signer(path)
    assert again.public_keys == [first, again.public_key]
    assert (tmp_path / PUBLIC).read_text().split() == again.public_keys
    assert path.stat().st_mode & 0o777 == 0o600
