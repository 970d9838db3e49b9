"""What Frandi et al. measured, Tables 2, 3 and 8: accuracy in percent, seconds on their machine of 2010."""

from __future__ import annotations

METHODS = {"FW": 0, "MFW": 1}  #: columns of Tables 2 and 3, by the method that has it here
SAMPLED = " sample"  #: what methods are called here that end where their program does

#: accuracy and seconds of FW and MFW, of sets that are the same here
GAUSSIAN = {
    "a1a": ((83.52, 83.52), (12.5, 0.712)),
    "a2a": ((83.56, 83.56), (19.3, 1.46)),
    "a3a": ((83.39, 83.41), (26.8, 2.78)),
    "w1a": ((97.31, 97.65), (0.286, 1.67)),
    "w7a": ((97.43, 97.88), (2.58, 91.4)),
    "w8a": ((97.80, 97.59), (9.64, 111)),
    "letter": ((96.54, 97.35), (13.3, 12.3)),
    "usps": ((95.12, 95.47), (7.58, 7.22)),
    "shuttle": ((98.08, 97.82), (1.69, 0.176)),
    "ijcnn1": ((95.71, 97.31), (40.5, 34.4)),
    "kddcup99_10pct": ((98.82, 99.10), (0.414, 1.22)),
}

#: accuracy and seconds of FW and MFW with the homogeneous quadratic kernel
QUADRATIC = {
    "shuttle": ((96.58, 95.86), (63.2, 85.2)),
    "w1a": ((97.22, 97.49), (0.076, 0.252)),
    "w7a": ((97.23, 97.23), (0.388, 0.210)),
    "w8a": ((97.06, 97.24), (0.276, 0.338)),
}


def gaussian(name: str, method: str) -> list[str]:
    """Return the cells of a set and a method in Tables 2 and 3, accuracy and seconds; empty where there are none."""
    own = METHODS.get(method.removesuffix(SAMPLED))
    if own is None or name not in GAUSSIAN:
        return ["", ""]
    return [f"{column[own]:g}" for column in GAUSSIAN[name]]


def quadratic(name: str, method: str) -> list[str]:
    """Return the same of Table 8."""
    method = method.removesuffix(SAMPLED)
    if method not in ("FW", "MFW") or name not in QUADRATIC:
        return ["", ""]
    return [f"{column[METHODS[method]]:g}" for column in QUADRATIC[name]]
