"""Run the numerical tests as on other processors, which this machine imitates.

    python -m tests.processors [--only sse2] [pytest's arguments]

OpenBLAS, Numba and NumPy each take another processor's code, as rounding differs between them. The solvers are compiled
once for each, which takes minutes, and kept where the others are. What this processor cannot run is left out by name.
It exits 1 if a test fails on one of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
from llvmlite.binding import get_host_cpu_features

TESTS = ("tests/property", "tests/unit")


@dataclass(frozen=True)
class Processor:
    """One that is imitated: what OpenBLAS and Numba call it, what it can do, and NumPy's features that it lacks."""

    openblas: str
    numba: str
    features: tuple[str, ...]
    without: tuple[str, ...]

    @property
    def is_possible(self) -> bool:
        """Whether this machine has all of its features."""
        here = get_host_cpu_features()
        return all(here.get(feature, False) for feature in self.features)

    def environment(self) -> dict[str, str]:
        """Return the variables that make a process behave so."""
        found = np.show_config("dicts")["SIMD Extensions"]["found"]  # type: ignore[call-overload, unused-ignore]
        left_out = [name for name in found if name.startswith(self.without)]
        return {
            "OPENBLAS_CORETYPE": self.openblas,
            "NUMBA_CPU_NAME": self.numba,
            "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in self.features),
            "NPY_DISABLE_CPU_FEATURES": " ".join(left_out),
        }


SSE = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
AVX2 = (*SSE, "avx", "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
PROCESSORS = {
    "sse2": Processor("Prescott", "generic", (), ("X86_V3", "X86_V4", "AVX", "FMA")),
    "sse4": Processor("Nehalem", "nehalem", SSE, ("X86_V3", "X86_V4", "AVX", "FMA")),
    "avx2": Processor("Haswell", "haswell", AVX2, ("X86_V4", "AVX512")),
    "avx512": Processor("SkylakeX", "skylake-avx512", AVX512, ()),
}


def main() -> int:
    """Run the tests on each; return how many had failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PROCESSORS, help="one of them")
    chosen, rest = parser.parse_known_args()
    failed = 0
    for name in [chosen.only] if chosen.only else PROCESSORS:
        if not PROCESSORS[name].is_possible:
            print(f"== {name}: this processor cannot run it")
            continue
        print(f"== {name}", flush=True)
        environment = os.environ | PROCESSORS[name].environment()
        failed += subprocess.run([sys.executable, "-m", "pytest", *(rest or TESTS)], env=environment).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
