"""What is installed: one package, whose client loads no solver."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

import livesvm
import livesvm.solvers
from livesvm.service.cli.main import main
from tests.documents import ROOT


def test_the_package_offers_what_the_solvers_do() -> None:
    assert sorted(livesvm.__all__) == sorted(livesvm.solvers.__all__)
    assert all(getattr(livesvm, name) is getattr(livesvm.solvers, name) for name in livesvm.__all__)


def test_every_class_of_the_solvers_has_a_name_of_its_own() -> None:
    sources = (path.read_text() for path in (ROOT / "solvers").rglob("*.py"))
    names = Counter(name for text in sources for name in re.findall(r"^class (\w+)", text, re.MULTILINE))
    assert len(names) > 200
    assert [name for name, count in names.items() if count > 1] == []


def test_the_version_is_that_of_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert livesvm.__version__ == version("livesvm")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{version('livesvm')}\n"


def test_the_package_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "livesvm", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == version("livesvm")


OWN = {"livesvm", "numpy", "httpx", "tenacity"}
"""What the client needs, and no more; with what those need."""
SCRIPT = """
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions, requires
from packaging.requirements import Requirement

def needed(names):
    found = set()
    while names:
        name = names.pop()
        found.add(name)
        asked = [Requirement(text) for text in requires(name) or ()]
        names |= {r.name for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})} - found
    return found

class Absent(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(name)

own = needed(%r - {"livesvm"})
absent = {module for module, names in packages_distributions().items() if not set(names) & (own | {"livesvm"})}
assert {"numba", "scipy", "sklearn", "matplotlib", "fastapi", "pydantic", "uvicorn", "structlog", "typer"} <= absent
sys.meta_path.insert(0, Absent())
for name in list(sys.modules):
    if name.split(".")[0] in absent:
        del sys.modules[name]
from livesvm.client import AsyncClient, Client, ServiceProblem
assert "numpy" not in sys.modules, "the client loads NumPy with the first call that sends numbers"
print(sorted(Client("http://127.0.0.1:9", patience=0.0).is_ready() is False for _ in "a"))
"""


def test_the_client_works_where_only_what_it_needs_is_installed() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT % OWN], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("[True]\n", "")


LIGHT = """
import gc, sys
def loaded(*names):
    return sorted(set(names) & set(sys.modules))
import livesvm
print(loaded("numpy", "numba", "sklearn", "scipy", "httpx"), gc.isenabled())
from livesvm import IncrementalSVC
print(loaded("sklearn.svm", "sklearn.linear_model", "sklearn.calibration", "matplotlib", "fastapi"), gc.isenabled())
"""


def test_an_estimator_loads_what_it_needs_and_no_more() -> None:
    run = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("[] True\n[] True\n", "")


def printed(asked: str, path: Path) -> str:
    """Return what a script prints that imports the package from a path, and from nowhere else."""
    environment = os.environ | {"PYTHONPATH": str(path)}
    run = subprocess.run([sys.executable, "-c", asked], cwd="/", env=environment, capture_output=True, text=True)
    return run.stdout + run.stderr


def test_the_source_tree_is_imported_without_its_links(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "livesvm", tmp_path / "livesvm", ignore=shutil.ignore_patterns("service", "solvers"))
    (tmp_path / "livesvm" / "solvers").write_text("../solvers")  # what Git writes where links cannot be made
    for name in ("service", "solvers"):
        (tmp_path / name).symlink_to(ROOT / name)
    asked = "import livesvm.client, livesvm.solvers.errors as found; print(found.__file__)"
    assert printed(asked, tmp_path) == f"{tmp_path}/solvers/errors.py\n"


def test_where_it_is_installed_a_process_of_its_own_imports_the_same_package(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "livesvm", tmp_path / "livesvm", ignore=shutil.ignore_patterns("service", "solvers"))
    for name in ("service", "solvers"):
        ignored = shutil.ignore_patterns("__pycache__", "page")
        shutil.copytree(ROOT / name, tmp_path / "livesvm" / name, ignore=ignored)
    asked = "from livesvm.service.resources import subprocess_work as work; print(work.__file__, work.ROOT)"
    assert printed(asked, tmp_path) == f"{tmp_path}/livesvm/service/resources/subprocess_work.py {tmp_path}\n"
