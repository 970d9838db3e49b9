"""Build what is published, and try it outside of the tree.

    python -m tests.packages [--python /path/to/python3.13] [--tests tests/unit/test_package.py ...]

The source distribution and its wheel are built, with machine code for this processor and for a baseline; otherwise the
wheel has the same files as one for every platform that is built from the tree. It is installed into a fresh environment
and used there: a first fit has to compile nothing, on this processor and as on another one; then come an estimator, the
service with its worker processes, the demonstration, and a first fit where the environment has been moved to. Some
tests are run in the unpacked source distribution. With ``--python`` the fresh environment belongs to that Python,
installs the source distribution with what the tests need, and runs them. It exits 1 with the first command that fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from livesvm.solvers.runtime.machine_code import directory
from tests.documents import ROOT

TESTS = ("tests/unit/test_package.py", "tests/unit/test_deployment.py", "tests/unit/test_certificate.py")
LARGEST_WHEEL = 4 * 2**20
"""In bytes, without machine code; a larger one has files that are not needed."""
BASELINE, OTHER = ("x86-64-v2", "nehalem") if platform.machine() in ("x86_64", "AMD64") else ("generic", "cortex-a57")
"""What a wheel for others is built for, and the name of another processor."""
MACHINE_CODE = "livesvm/solvers/machine-code/"
SITE = "livesvm/service/api/page/site/index.html"
"""The documentation, of a tree in which it was built."""
FIRST = """
import gc, time
began = time.process_time()
import numpy as np
from livesvm import IncrementalSVC
imported = time.process_time()
X = np.random.default_rng(0).normal(size=(90, 3))
model = IncrementalSVC(C=10.0, gamma=0.5).fit(X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1))
fitted = time.process_time()
from livesvm.solvers.runtime import compile, machine_code
from livesvm.solvers.warm_up import FAMILIES, is_compiled, warm_up
missing = [family for family in FAMILIES if not is_compiled(family)]
warm_up()
entries = [found for found in gc.get_objects() if isinstance(found, compile.Entry)]
compiled = sum(sum(entry.stats.cache_misses.values()) for entry in entries)
loaded = {file.name.rpartition(".")[2] for file in machine_code.in_use}
times = f"{imported - began:.1f} s of processor time for the import, {fitted - imported:.1f} s for the fit"
print(compiled, missing, *loaded, times)
"""
USE = """
import tempfile
from pathlib import Path
import livesvm, numpy as np
from livesvm.client import Client
from livesvm.service.demo.server import Server

X = np.random.default_rng(0).normal(size=(90, 3))
y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
server = Server(Path(tempfile.mkdtemp()))
server.start()
try:
    with Client(server.address) as client:
        client.create_model("river", kernel={"name": "rbf", "gamma": 0.5}, C=10.0, window={"max_examples": 60})
        client.update("river", X[:60], y[:60])
        client.update("river", X[60:], y[60:])
        decision = client.predict("river", X)["decision"]
        client.create_model("large", task="l2svc", kernel={"name": "rbf", "gamma": 0.5}, C=10.0)
        client.update("large", X, y)
        assert client.wait(client.retrain("large")["id"])["state"] == "done"
finally:
    assert server.stop() == 0, server.log_tail()
model = livesvm.IncrementalSVC(C=10.0, gamma=0.5).fit(X[30:], y[30:])
np.testing.assert_allclose(decision, model.decision_function(X), atol=1e-6)
print("used", livesvm.__version__, "from", livesvm.__file__)
"""


def run(*command: str | Path, cwd: Path, **variables: str) -> None:
    """Run a command; raises CalledProcessError."""
    print("+", *("..." if "\n" in str(word) else word for word in command), flush=True)
    subprocess.run(command, cwd=cwd, env=without_ours() | variables, check=True)


def without_ours() -> dict[str, str]:
    """Return the environment without what says where the package, a service or machine code is."""
    shut_out = ("PYTHONPATH", "LIVESVM_URL", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    return {name: value for name, value in os.environ.items() if name not in shut_out}


def built(source: Path, out: Path, *options: str, **variables: str) -> Path:
    """Build a wheel, and unless the options say otherwise the source distribution that it is built from."""
    run(sys.executable, "-m", "build", "--outdir", out, *options, source, cwd=out.parent, **variables)
    (wheel,) = out.glob("*.whl")
    return wheel


def first_fit(fresh: Path, home: Path, **variables: str) -> str:
    """Fit a first model and load all other code, which compiles, prints and writes nothing; return for what it is."""
    before = state_of(fresh)
    command = [str(fresh / "bin" / "python"), "-c", FIRST]
    environment = without_ours() | {"HOME": str(home)} | variables
    done = subprocess.run(command, cwd=home.parent, env=environment, capture_output=True, text=True, check=True)
    processor: str
    compiled, missing, processor, times = done.stdout.split(maxsplit=3)
    assert (compiled, missing, done.stderr) == ("0", "[]", ""), done.stdout + done.stderr
    assert state_of(fresh) == before
    assert not list(home.iterdir())
    print(f"code for {processor}: {times.strip()}", flush=True)
    return processor


def state_of(fresh: Path) -> dict[Path, int]:
    """Return when each installed file was last changed."""
    return {path: path.stat().st_mtime_ns for path in fresh.rglob("*") if path.is_file()}


def contents(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel, each with the checksum of its bytes."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def own_files(wheel: Path) -> dict[str, int]:
    """Return the same of the files that are no machine code, nor say what the wheel is for."""
    about = (".dist-info/WHEEL", ".dist-info/RECORD")
    found = contents(wheel).items()
    return {name: crc for name, crc in found if not name.startswith(MACHINE_CODE) and not name.endswith(about)}


def unpacked(folder: Path) -> Path:
    """Unpack the one source distribution in a folder, which holds no links."""
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        assert all(member.isfile() for member in file), "there are links in the source distribution"
        file.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 and before have none
        file.extractall(folder)
    return folder / archive.name.removesuffix(".tar.gz")


def main() -> int:
    """Build, compare, test, install and use."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", help="of the fresh environment, and of the tests (default: this one)")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="run in the unpacked source distribution")
    asked = parser.parse_args()
    compiled = {"NUMBA_CACHE_DIR": str(Path(directory() or "").resolve().parent)}
    with tempfile.TemporaryDirectory(prefix="livesvm-packages-") as name:
        place = Path(name)
        outside = place / "outside"
        home = place / "home"
        outside.mkdir()
        home.mkdir()
        wheel = built(ROOT, place / "dist", LIVESVM_BUILD_CPU=f"native {BASELINE}", **compiled)
        bare = built(ROOT, place / "from-tree", "--wheel", LIVESVM_BUILD_CPU="none")
        assert bare.name.endswith("-py3-none-any.whl")
        assert bare.stat().st_size < LARGEST_WHEEL
        assert own_files(wheel) == own_files(bare), set(own_files(wheel).items()) ^ set(own_files(bare).items())
        assert (SITE in contents(wheel)) == (ROOT / SITE.removeprefix("livesvm/")).exists()
        source = unpacked(wheel.parent)
        fresh = place / "fresh"
        run(asked.python or sys.executable, "-m", "venv", fresh, cwd=outside)
        python = fresh / "bin" / "python"
        what = f"{source}[test]" if asked.python else wheel
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what, cwd=outside, **compiled)
        native = first_fit(fresh, home)
        if not asked.python:
            assert first_fit(fresh, home, NUMBA_CPU_NAME=OTHER).startswith(f"{BASELINE}-")
        tests = [
            python if asked.python else sys.executable,
            "-m",
            "pytest",
            "--quiet",
            "--numprocesses=0",
            *asked.tests,
        ]
        run(*tests, cwd=source, PYTHONPATH=str(source), **compiled)
        run(python, "-c", USE, cwd=outside)
        run(fresh / "bin" / "livesvm", "demo", "--months", "1", cwd=outside)
        assert [path.name for path in outside.iterdir()] == ["fisher-river.png"]
        assert first_fit(fresh.rename(place / "moved"), home) == native
    print("the packages are what they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
