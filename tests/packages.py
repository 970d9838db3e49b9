"""Build what is published, and try it outside of the tree.

    python -m tests.packages [--python /path/to/python3.13] [--tests tests/unit/test_package.py ...]

The source distribution and the wheel are built; the wheel built from the unpacked source distribution has the same
files as the one built from the tree. The wheel is installed into a fresh environment and used there: an estimator, the
service with its worker processes, and the demonstration. Some tests are run in the unpacked source distribution. With
``--python`` the fresh environment belongs to that Python, and has what the tests need, which it runs. It exits 1 with
the first command that fails.
"""

from __future__ import annotations

import argparse
import os
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
"""In bytes; a larger one has files that are not needed."""
SITE = "livesvm/service/api/page/site/index.html"
"""The documentation, of a tree in which it was built."""
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
    shut_out = ("PYTHONPATH", "LIVESVM_URL")
    environment = {name: value for name, value in os.environ.items() if name not in shut_out}
    subprocess.run(command, cwd=cwd, env=environment | variables, check=True)


def built(source: Path, out: Path, *options: str) -> Path:
    """Build a wheel, and unless the options say otherwise the source distribution that it is built from."""
    run(sys.executable, "-m", "build", "--outdir", out, *options, source, cwd=out.parent)
    (wheel,) = out.glob("*.whl")
    return wheel


def contents(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel, each with the checksum of its bytes."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def unpacked(folder: Path) -> Path:
    """Unpack the one source distribution in a folder, which holds no links."""
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        assert all(member.isfile() for member in file), "there are links in the source distribution"
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def main() -> int:
    """Build, compare, test, install and use."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", help="of the fresh environment, and of the tests (default: this one)")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="run in the unpacked source distribution")
    asked = parser.parse_args()
    compiled = {"NUMBA_CACHE_DIR": str(Path(directory() or "").parent)}
    with tempfile.TemporaryDirectory(prefix="livesvm-packages-") as name:
        place = Path(name)
        outside = place / "outside"
        outside.mkdir()
        wheel = built(ROOT, place / "dist")
        tree = built(ROOT, place / "from-tree", "--wheel")
        assert contents(wheel) == contents(tree), set(contents(wheel).items()) ^ set(contents(tree).items())
        assert wheel.stat().st_size < LARGEST_WHEEL
        assert (SITE in contents(wheel)) == (ROOT / SITE.removeprefix("livesvm/")).exists()
        source = unpacked(wheel.parent)
        run(asked.python or sys.executable, "-m", "venv", place / "fresh", cwd=outside)
        programs = place / "fresh" / "bin"
        what = f"{wheel}[test]" if asked.python else wheel
        run(programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what, cwd=outside)
        python = programs / "python" if asked.python else sys.executable
        tests = [python, "-m", "pytest", "--quiet", "--numprocesses=0", *asked.tests]
        run(*tests, cwd=source, PYTHONPATH=str(source), **compiled)
        run(programs / "python", "-c", USE, cwd=outside, **compiled)
        run(programs / "livesvm", "demo", "--months", "1", cwd=outside, **compiled)
        assert [path.name for path in outside.iterdir()] == ["fisher-river.png"]
    print("the packages are what they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
