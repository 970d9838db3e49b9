"""Requests whose bodies are truncated, corrupted, or not what they say: JSON, npy and npz."""

from __future__ import annotations

import io
import random
import struct
from typing import Any

import numpy as np

from tests.faults.scene import JSON, NPY, NPZ, Scene, encoded, request, route, rows
from tests.faults.wire import Sent


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with some flipped, cut, doubled, inserted or overwritten."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(found) + 1)
        match rng.randint(0, 5):
            case 0:
                del found[at:]
            case 1:
                found[at:at] = rng.randbytes(rng.choice((1, 2, 8, 300)))
            case 2:
                found[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                found[at:at] = found[at : at + rng.randint(1, 60)]
            case 4:
                del found[at : at + rng.randint(1, 30)]
            case _:
                found[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x80", b"\xff\xff\xff\x7f"))
    return bytes(found) or b"\0"


def npy(array: Any, **options: Any) -> bytes:
    """Return an npy file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False, **options)
    return stream.getvalue()


def packed(rng: random.Random, document: dict[str, Any], kind: str) -> tuple[bytes, str]:
    """Return an npy or npz file that says about what a document says, of any type of number."""
    X = np.array(rows(rng)).astype(rng.choice(("f8", "f4", ">f8", "i4", "f2", "u1", "c16", "?", "U3", "M8[s]")))
    if kind == "predict" and rng.random() < 0.6:
        return npy(X), NPY
    members: dict[str, Any] = {"X": X}
    if kind == "update":
        more: dict[str, Any] = {
            "y": np.array([1.0, rng.choice((-1.0, np.nan, 3.0))]), "keys": np.array([f"k{rng.getrandbits(40)}", "x"]),
            "weights": [1.0, -1.0], "remove_oldest": 1, "relabel_keys": [0], "relabel_y": [np.inf],
            "decay": rng.choice((0.5, np.nan, 2.0, 5e-324)), "C": 1e9, "reweight_keys": [1],
            "reweight_weights": [np.nan], "remove_keys": [0], "sample_weight": [1.0], "colour": [1],
        }  # fmt: skip
        members |= {name: more[name] for name in rng.sample(sorted(more), rng.randint(1, 5))}
    stream = io.BytesIO()
    (np.savez_compressed if rng.random() < 0.5 else np.savez)(stream, **members)
    return stream.getvalue(), NPZ


def lying_npy(rng: random.Random) -> bytes:
    """Return an npy file whose head is not what follows."""
    shape = rng.choice(
        (
            "(2, 3)",
            "(0, 3)",
            "(10**9, 10**9)",
            "(1000000000, 3)",
            "(-1, 3)",
            "(2,)",
            "()",
            "(2, 3.0)",
            "[2, 3]",
            "(2, " * 90,
        )
    )
    descr = rng.choice(
        (
            "'<f8'",
            "'|O'",
            "'<U1000000000'",
            "[('a', '<f8')]",
            "'<f8', '<f8'",
            "'V8'",
            "None",
            "'<c32'",
            "'" + "x" * 3000 + "'",
        )
    )
    head = (
        f"{{'descr': {descr}, 'fortran_order': {rng.choice(('False', 'True', '1', 'x'))}, 'shape': {shape}, }}".encode()
    )
    size = rng.choice((len(head), 0, 65535, len(head) + 1))
    return b"\x93NUMPY" + bytes([rng.choice((1, 1, 2, 3, 0, 255)), 0]) + struct.pack("<H", size) + head + bytes(48)


def body(rng: random.Random, scene: Scene) -> Sent:
    """Truncated and corrupted JSON, npy and npz."""
    wanted = route(rng, scene)
    while wanted.document is None:
        wanted = route(rng, scene)
    data, kind = encoded(wanted.document) or b"", JSON
    if wanted.packed and rng.random() < 0.7:
        data, kind = packed(rng, wanted.document, wanted.packed)
        if rng.random() < 0.2:
            data, kind = lying_npy(rng), NPY
    return Sent(
        "body", request(scene, wanted.method, wanted.path, mutated(rng, data) if rng.random() < 0.9 else data, kind)
    )
