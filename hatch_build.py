"""Build hook: a wheel carries the machine code of its solvers, so that an installed package compiles nothing.

``LIVESVM_BUILD_CPU`` says for which processors, separated by spaces: ``native`` is the one here, ``x86-64-v3``,
``x86-64-v2`` and ``generic`` are baselines that others can run too, ``none`` is a wheel for every platform, without
machine code. Without the variable it is ``native``, and ``none`` where that cannot be compiled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "LIVESVM_BUILD_CPU"
NEEDED = {"numpy", "scipy", "scikit-learn", "numba", "threadpoolctl"}
"""Of what the package depends on, what compiling needs: in the same versions, as they are part of what is compiled."""
COMPILE = """
import shutil, sys
from llvmlite.binding import get_process_triple
from livesvm.solvers.runtime import machine_code
from livesvm.solvers.warm_up import warm_up
folder, processor = sys.argv[1:]
known = ["native", *machine_code.runnable(get_process_triple(), machine_code.features_here())]
if processor not in known:
    sys.exit(f"code for {processor} cannot be made and run here, but for {', '.join(known)}, or none")
if machine_code.directory() is None:
    sys.exit(machine_code.NO_PLACE)
warm_up()
for file in machine_code.in_use:
    shutil.copy2(file, folder)
"""
"""Compile what the source tree, where it is kept for the next build, does not have, and copy what is in use."""


class CompileHook(BuildHookInterface):
    """Compile the solvers, and tag the wheel with the platform and the Python that this was for."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what a build environment needs for that."""
        if _processors() == ["none"]:
            return []
        found = self.metadata.core.dependencies
        return [text for text in found if re.split(r"[^\w.-]", text)[0].lower() in NEEDED]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the machine code to a wheel; a source tree in use keeps its own."""
        processors = _processors()
        if version == "editable" or processors == ["none"]:
            return
        self._made = tempfile.TemporaryDirectory(prefix="livesvm-machine-code-")
        if all(self._compiled(processor) for processor in processors):
            build_data["force_include"][self._made.name] = "livesvm/solvers/machine-code"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
        elif VARIABLE in os.environ:
            self.app.abort(f"the solvers could not be compiled for {VARIABLE}={os.environ[VARIABLE]}, as is said above")
        else:
            self.app.display_warning("The wheel carries no machine code: the first use of the package will compile.")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete what is in the wheel now."""
        if hasattr(self, "_made"):
            self._made.cleanup()

    def _compiled(self, processor: str) -> bool:
        """Compile for one processor; False: that could not be done, and its error is printed."""
        self.app.display_info(
            f"Compiling the solvers for {processor}, which may take two minutes ({VARIABLE}=none: not)"
        )
        paths = [self.root, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        if processor != "native":
            environment |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
        command = [sys.executable, "-c", COMPILE, self._made.name, processor]
        return subprocess.run(command, cwd=Path(self._made.name).parent, env=environment, check=False).returncode == 0


def _processors() -> list[str]:
    return os.environ.get(VARIABLE, "").split() or ["native"]
