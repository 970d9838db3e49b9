"""What is installed: one package, whose client loads no solver."""

import subprocess
import sys

import livesvm
import livesvm.solvers


def test_the_package_offers_what_the_solvers_do() -> None:
    assert sorted(livesvm.__all__) == sorted(livesvm.solvers.__all__)
    assert all(getattr(livesvm, name) is getattr(livesvm.solvers, name) for name in livesvm.__all__)


def test_the_client_loads_neither_solvers_nor_the_server() -> None:
    script = "import sys, livesvm.client; print(sorted({name.split('.')[0] for name in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"numba", "scipy", "sklearn", "matplotlib", "fastapi", "pydantic", "uvicorn"}
    assert not heavy & {name.strip("'") for name in run.stdout.strip("[]\n").split(", ")}
