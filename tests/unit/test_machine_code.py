"""Machine code that is kept is used again for just the code it was made of."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from livesvm.solvers.errors import UnsupportedNumba
from livesvm.solvers.runtime import TRIED, check_version, machine_code
from livesvm.solvers.runtime.at_work import BEFORE
from livesvm.solvers.runtime.machine_code import BASELINES, runnable

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
import logging, os, runpy, sys, traceback
from numba import njit
njit(lambda x: x + 1.0)(1.0)
sys.dont_write_bytecode = True  # which takes edits within a second for none
logging.getLogger("livesvm.solvers.runtime.at_work").setLevel("ERROR")  # that something is compiled is no error
for folder in map(str.strip, sys.stdin):
    child = os.fork()
    if child == 0:
        if os.path.exists(f"{folder}/livesvm/kept"):
            os.environ["NUMBA_CACHE_DIR"] = f"{folder}/livesvm/kept"
        else:  # an image, of which nothing can be written to
            os.environ.pop("NUMBA_CACHE_DIR", None)
            os.access = lambda place, mode: False
            logging.disable()  # another test reads what is said then
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
"""A process that has Numba loaded, and forks one for each folder that it is reported of."""


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
    for name in ("at_work.py", "by_reference.py", "cached.py", "compile.py", "machine_code.py"):
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


CALLERS = {
    "once.py": """
import numpy as np
from livesvm.solvers.runtime.compile import compiled, compiled_once_allocating

@compiled_once_allocating
def sums(x):
    return np.cumsum(x)[-1]

@compiled
def first(x):
    return 1.0 + sums(x)

@compiled
def second(x):
    return 10.0 * sums(x)
""",
    "main.py": """
import sys
import numpy as np
from livesvm.solvers.once import first, second, sums
value = [f(np.array([1.0, 2.0])) for f in (first, second)]
print(value, [sum(f.stats.cache_misses.values()) for f in (first, second, sums)])
""",
}


def test_what_is_shared_is_compiled_once_and_loaded_for_each_caller(package: Path, run: Run) -> None:
    for name, text in CALLERS.items():
        (package / name).write_text(text)
    assert run(package) == "[4.0, 30.0] [1, 1, 1]"
    assert run(package) == "[4.0, 30.0] [0, 0, 0]"
    edit(package, "once.py", "1.0 + sums", "2.0 + sums")
    assert run(package) == "[5.0, 30.0] [1, 0, 0]"
    edit(package, "once.py", "np.cumsum(x)[-1]", "np.cumsum(x)[0]")
    assert run(package) == "[3.0, 10.0] [1, 1, 1]"
    for shared in (package.parent / "kept" / "machine-code").glob("*sums*"):
        shared.unlink()
    assert run(package) == "[3.0, 10.0] [0, 0, 1]"


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


def test_what_was_installed_for_any_processor_is_used_on_this_one_and_stays_as_it_is(package: Path, run: Run) -> None:
    for name, text in CALLERS.items():
        (package / name).write_text(text)
    shutil.rmtree(package.parent / "kept" / "machine-code")
    any_processor = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    kept = {"NUMBA_CACHE_DIR": str(package.parent / "kept"), "PYTHONPATH": str(package.parents[1])}
    environment = {**os.environ, **any_processor, **kept}
    command = [sys.executable, "-P", "-m", "livesvm.solvers.main"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[4.0, 30.0] [1, 1, 1]"
    installed = package / "machine-code"
    (package.parent / "kept" / "machine-code").rename(installed)
    before = {file: file.stat().st_mtime_ns for file in installed.iterdir()}
    assert all(".generic-" in file.name for file in before)
    assert run(package) == "[4.0, 30.0] [0, 0, 0]"
    assert not (package.parent / "kept" / "machine-code").exists()
    edit(package, "once.py", "1.0 + sums", "2.0 + sums")
    assert run(package) == "[5.0, 30.0] [1, 0, 0]"  # for this processor: it calls what was made for any
    assert {file: file.stat().st_mtime_ns for file in installed.iterdir()} == before
    assert len([*(package.parent / "kept" / "machine-code").iterdir()]) == 1


def test_a_baseline_is_run_by_a_processor_that_has_all_of_it() -> None:
    every = frozenset[str]().union(*BASELINES.values())
    assert runnable("x86_64-unknown-linux-gnu", every | {"avx512f"}) == ["x86-64-v3", "x86-64-v2", "generic"]
    assert runnable("x86_64-unknown-linux-gnu", every - {"fma"}) == ["x86-64-v2", "generic"]
    for missing in BASELINES["x86-64-v2"]:
        assert runnable("x86_64-unknown-linux-gnu", every - {missing}) == ["generic"]
    assert runnable("aarch64-unknown-linux-gnu", frozenset({"neon", "sve"})) == ["generic"]


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


def test_a_second_environment_of_the_same_versions_compiles_nothing(package: Path, tmp_path: Path) -> None:
    edit(package, "low.py", "FACTOR = 2.0", "import numpy as np\nFACTOR = 2.0")
    edit(package, "low.py", "return x + 100.0", "return np.sqrt(x) + 100.0")
    found = []
    for name in ("one", "other"):
        (tmp_path / name).symlink_to(Path(np.__file__).parents[1])  # all that is installed, at a path of its own
        places = [str(tmp_path), str(tmp_path / name)]
        program = f"import sys; sys.path[:0] = {places}; import numpy, livesvm.solvers.main; print(numpy.__file__)"
        command = [sys.executable, "-I", "-S", "-c", program]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "livesvm" / "kept")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        found.append(done.stdout.splitlines())
    assert [misses for (misses, _) in found] == [f"(24.0, 101.0) {{'total': 0, 'apart': {count}}}" for count in (1, 0)]
    assert found[0][1] != found[1][1]


@pytest.mark.parametrize(
    ("mode", "above", "owner", "is_used"),
    [
        (0o755, 0o755, 0, True),
        (0o775, 0o1777, 0, True),
        (0o757, 0o755, 0, False),
        (0o755, 0o777, 0, False),
        (0o755, 0o755, 1, False),
    ],
    ids=["own", "in a place like /tmp", "written by all", "replaced by all", "of another"],
)
def test_code_that_another_user_could_have_put_there_is_not_run(
    mode: int, above: int, owner: int, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "above" / "machine-code"
    place.mkdir(parents=True)
    place.chmod(mode)
    place.parent.chmod(above)
    real = Path.stat

    def of_owner(path: Path, **how: bool) -> os.stat_result:
        found = real(path, **how)
        return os.stat_result((*found[:4], found.st_uid + owner, *found[5:])) if path == place else found

    monkeypatch.setattr(Path, "stat", of_owner)
    assert machine_code.is_ours.__wrapped__(place) == is_used
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(place.parent))
    monkeypatch.setattr(machine_code, "is_ours", machine_code.is_ours.__wrapped__)
    assert machine_code.directory.__wrapped__() == (str(place) if is_used else None)


def test_it_is_said_once_where_machine_code_is_not_kept(package: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(package.parents[1]), "NUMBA_CACHE_DIR": os.devnull}
    command = [sys.executable, "-P", "-m", "livesvm.solvers.main"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "(24.0, 101.0) {'total': 1, 'apart': 1}"
    said, that_it_compiles = done.stderr.splitlines()
    assert that_it_compiles == BEFORE
    assert said.endswith("let NUMBA_CACHE_DIR name a directory that this user alone can write to, and that stays")


def test_another_numba_is_refused_by_name() -> None:
    for version in (*(f"{one}.0" for one in TRIED), "0.68.3rc1"):
        check_version(version)
    for version in ("0.66.2", "0.69.0", "1.0.0"):
        with pytest.raises(UnsupportedNumba, match=f"Numba {version} has not been tried"):
            check_version(version)


def test_the_versions_that_were_tried_are_those_that_are_installed() -> None:
    wanted = tomllib.loads((REAL.parents[1] / "pyproject.toml").read_text())["project"]["dependencies"]
    first, last = TRIED[0], TRIED[-1].split(".")
    assert f"numba>={first},<{last[0]}.{int(last[1]) + 1}" in wanted


def _unkept(function: ast.FunctionDef) -> list[str]:
    """Return the records and arrays made in a function that it refers to, and does not keep until it last uses that."""
    made: set[str] = set()
    references: dict[str, set[str]] = {}
    alone: set[str] = set()  # references themselves, which are nothing to keep
    kept: dict[str, int] = {}
    keeping: set[ast.expr] = set()
    last: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call | ast.Tuple):
            for target in ast.walk(ast.Tuple([*node.targets], ast.Store())):
                if isinstance(target, ast.Name) and any(isinstance(part, ast.Call) for part in ast.walk(node.value)):
                    made.add(target.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "keep":
            assert isinstance(node.args[0], ast.Name)
            kept[node.args[0].id] = node.lineno
            keeping.add(node.args[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in keeping:
            last[node.id] = max(last.get(node.id, 0), node.lineno)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            for call in ast.walk(node.value):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "refer":
                    alone |= {node.targets[0].id} if call is node.value else set()
                    names = {part.id for part in ast.walk(call) if isinstance(part, ast.Name)} & made
                    references.setdefault(node.targets[0].id, set()).update(names)
    for _ in references:  # a record that refers to others is used where it is referred to
        for holder, names in references.items():
            for name in names & references.keys():
                last[name] = max(last[name], last[holder])
                names |= references[name]
    return [
        f"{function.name}: {name}"
        for holder, names in references.items()
        for name in names - alone
        if kept.get(name, 0) < last[holder]
    ]


def test_what_compiled_code_refers_to_is_kept_until_it_is_last_used() -> None:
    """A reference that is made in compiled code counts for nothing: arrays that only it knows would be freed."""
    found, count = [], 0
    for file in REAL.parent.rglob("*.py"):
        text = file.read_text()
        if "refer(" in text and file.name not in ("by_reference.py",):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef):
                    count += "refer(" in (ast.get_source_segment(text, node) or "")
                    found += _unkept(node)
    assert count >= 1
    assert not found
    lost = ast.parse("def f(n):\n    x = zeros(n)\n    w = refer(Pair(x, n))\n    keep(x)\n    use(w)\n").body[0]
    assert isinstance(lost, ast.FunctionDef)
    assert _unkept(lost) == ["f: x"]
