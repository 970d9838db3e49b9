"""Small requests that would become large: inflation, names, fields and depth without end."""

from __future__ import annotations

import io
import random
import zipfile
from functools import cache

import numpy as np

from tests.faults.hostile_bodies import npy
from tests.faults.scene import JSON, NPZ, Scene, request
from tests.faults.wire import Sent

INFLATED = 2**25
"""Numbers in an archive of less than 300 kB; 256 MB."""
LARGE = 6 * 2**20
"""Bytes of what is large as it comes."""


@cache
def archive(*, lies: bool) -> bytes:
    """Return an npz file of zeros; where it lies, it says that they are 100 bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("X.npy", npy(np.zeros((INFLATED // 2, 2))))
    found = bytearray(stream.getvalue())
    if lies:
        directory = found.rindex(b"PK\x01\x02")
        found[directory + 24 : directory + 28] = found[22:26] = (100).to_bytes(4, "little")
    return bytes(found)


@cache
def text(kind: int) -> bytes:
    """Return JSON that is hard to parse."""
    repeat = (b'"a%d":1,', b"[", b"[],", b'{"a":', b"1,", b'"",', b"[[1e1]],")[kind % 7]
    if kind % 7 == 0:
        return b"{" + b"".join(b'"a%d":1,' % n for n in range(LARGE // 12)) + b'"b":1}'
    start = (b'{"X":', b'{"add":{"X":[', b'{"', b"")[kind // 7]
    return start + repeat * (LARGE // len(repeat)) + b'":1}' * (kind // 7 == 2)


def bomb(rng: random.Random, scene: Scene) -> Sent:
    """Return one of them."""
    model = rng.choice(list(scene.models.values()))
    call = rng.choice((f"/models/{model}/update", f"/models/{model}/predict"))
    if rng.random() < 0.4:
        return Sent("bomb", request(scene, "POST", call, archive(lies=rng.random() < 0.7), NPZ))
    route = rng.choice((call, "/models", f"/models/{model}/outlier-path", f"/jobs/{scene.job}/apply"))
    return Sent("bomb", request(scene, "POST", route, text(rng.randrange(28)), JSON))
