"""Machine code that is kept is used again for just the code it was made of."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Run = Callable[[Path], str]

PACKAGE = {
    "__init__.py": "",
    "runtime/__init__.py": "",
    "records.py": """
from enum import IntEnum
from typing import NamedTuple
import numpy as np

class Pair(NamedTuple):
    first: float
    second: float

class Exit(IntEnum):
    DONE = 3
""",
    "low.py": '''
from livesvm.solvers.runtime.compile import compiled
FACTOR = 2.0

@compiled
def scaled(x):
    """Scale it."""
    return FACTOR * x

@compiled
def apart(x):
    return x + 100.0
''',
    "high.py": """
from livesvm.solvers import low, records
from livesvm.solvers.low import scaled
from livesvm.solvers.records import Exit, Pair
from livesvm.solvers.runtime.compile import compiled

@compiled
def total(pair):
    return scaled(pair.first) + pair.second + Exit.DONE.value
""",
    "main.py": """
from livesvm.solvers.high import total
from livesvm.solvers.low import apart
from livesvm.solvers.records import Pair
value = total(Pair(10.0, 1.0)), apart(1.0)
misses = {f.__name__: sum(f.stats.cache_misses.values()) for f in (total, apart)}
print(value, misses)
""",
}
REAL = Path(__file__).parents[2] / "solvers" / "runtime"
FORKING = """
import os, runpy, sys, traceback
from numba import njit
njit(lambda x: x + 1.0)(1.0)
sys.dont_write_bytecode = True  # which takes edits within a second for none
for folder in map(str.strip, sys.stdin):
    child = os.fork()
    if child == 0:
        if os.path.exists(f"{folder}/livesvm/kept"):
            os.environ["NUMBA_CACHE_DIR"] = f"{folder}/livesvm/kept"
        else:  # an image, of which nothing can be written to
            os.environ.pop("NUMBA_CACHE_DIR", None)
            os.access = lambda place, mode: False
        sys.path.insert(0, folder)
        for number in (1, 2):
            os.dup2(os.open(f"{folder}/said-{number}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
        try:
            runpy.run_module("livesvm.solvers.main", run_name="__main__")
        except Exception:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    print(flush=True)
"""
"""A process that has Numba loaded, and forks one for each folder that it is told of."""


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """What ``main`` of a package prints: two values, and how often each function was compiled."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as forking:
        assert forking.stdin is not None
        assert forking.stdout is not None
        to, back = forking.stdin, forking.stdout

        def run(package: Path) -> str:
            folder = package.parents[1]
            print(folder, file=to, flush=True)
            back.readline()
            errors = (folder / "said-2").read_text()
            assert not errors, errors
            return (folder / "said-1").read_text().strip()

        yield run
        to.close()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """A package of the same name, with the same files that compile and keep, and what it has compiled."""
    folder = tmp_path_factory.mktemp("compiled") / "livesvm" / "solvers"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    for name, text in PACKAGE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder.parent / "kept").mkdir()
    for name in ("by_reference.py", "compile.py", "machine_code.py"):
        (folder / "runtime" / name).write_text((REAL / name).read_text())
    assert run(folder) == "(24.0, 101.0) {'total': 1, 'apart': 1}"
    return folder


@pytest.fixture
def package(compiled: Path, tmp_path: Path) -> Path:
    """The same, to be edited."""
    shutil.copytree(compiled.parent, tmp_path / "livesvm")
    return tmp_path / "livesvm" / "solvers"


def edit(package: Path, name: str, old: str, new: str) -> None:
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))


def test_what_has_not_changed_is_not_compiled_again(package: Path, run: Run) -> None:
    assert run(package) == "(24.0, 101.0) {'total': 0, 'apart': 0}"
    edit(package, "low.py", "Scale it.", "Scale it, as is said elsewhere.")
    edit(package, "records.py", "import numpy as np", "# a comment")
    edit(package, "high.py", "@compiled", "def another():\n    return 1\n\n\n@compiled")
    assert run(package) == "(24.0, 101.0) {'total': 0, 'apart': 0}"


@pytest.mark.parametrize(
    ("name", "old", "new", "value"),
    [
        ("high.py", "+ pair.second", "- pair.second", 22.0),
        ("low.py", "return FACTOR * x", "return FACTOR * x * x", 204.0),
        ("low.py", "FACTOR = 2.0", "FACTOR = 3.0", 34.0),
        ("records.py", "DONE = 3", "DONE = 4", 25.0),
        ("records.py", "first: float\n    second: float", "second: float\n    first: float", 15.0),
        ("runtime/compile.py", '"error_model": "numpy"', '"error_model": "python"', 24.0),
    ],
    ids=["itself", "what it calls", "a constant there", "an enumeration", "the fields of a record", "how"],
)
def test_what_depends_on_a_change_is_compiled_again(
    package: Path, name: str, old: str, new: str, value: float, run: Run
) -> None:
    edit(package, name, old, new)
    again = int(name == "runtime/compile.py")
    assert run(package) == f"({value}, 101.0) {{'total': 1, 'apart': {again}}}"
    edit(package, name, new, old)
    assert run(package) == "(24.0, 101.0) {'total': 0, 'apart': 0}"  # the other version is still there


def test_a_file_that_was_cut_off_is_made_again(package: Path, run: Run) -> None:
    for file in (package.parent / "kept" / "machine-code").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert run(package) == "(24.0, 101.0) {'total': 1, 'apart': 1}"


def test_what_is_beside_the_source_is_used_where_nothing_can_be_written(package: Path, run: Run) -> None:
    (package / "__pycache__").mkdir(exist_ok=True)
    assert {file.stat().st_mode & 0o777 for file in (package.parent / "kept" / "machine-code").iterdir()} == {0o644}
    (package.parent / "kept" / "machine-code").rename(package / "__pycache__" / "machine-code")
    (package.parent / "kept").rmdir()
    assert run(package) == "(24.0, 101.0) {'total': 0, 'apart': 0}"
    edit(package, "high.py", "+ pair.second", "- pair.second")
    for _ in range(2):  # and nothing is kept
        assert run(package) == "(22.0, 101.0) {'total': 1, 'apart': 0}"


def test_what_machine_code_should_not_depend_on_is_refused(package: Path, run: Run) -> None:
    edit(package, "low.py", "FACTOR = 2.0", "FACTOR = [2.0][0]\nTABLE = {1: 2}")
    edit(package, "low.py", "return x + 100.0", "return x + len(TABLE)")
    with pytest.raises(AssertionError, match=r"TypeError: machine code should not depend on \{1: 2\}"):
        run(package)


def test_a_record_that_has_moved_is_another_one(package: Path, run: Run) -> None:
    pair = "class Pair(NamedTuple):\n    first: float\n    second: float\n"
    edit(package, "records.py", pair, "")
    (package / "pairs.py").write_text("from typing import NamedTuple\n\n" + pair)
    edit(package, "high.py", "import Exit, Pair", "import Exit")
    edit(package, "main.py", "solvers.records import Pair", "solvers.pairs import Pair")
    assert run(package) == "(24.0, 101.0) {'total': 1, 'apart': 0}"
