"""Follow the Dockerfile without Docker, and run what comes of it as it is run in a container.

    python -m tests.faults.image [--extra ray]

It needs debootstrap, root and the right to mount, and takes about ten minutes. The base image is made of Debian's
packages, with the Python that it names; what it installs is fetched by this machine's pip, and installed without a
network. The service then runs as the image's user, without a home, on a read-only root: it has to load what was
compiled, and compile nothing. With ``--extra ray`` the shells that KubeRay starts have to find Ray as well.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import httpx

from tests.contract.redis_server import free_port

ROOT = Path(__file__).parents[2]
SUITES = {"3.13": "trixie"}
"""Debian's releases, by the Python that they have."""
SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
WHEELS = "/mnt"
START_SECONDS = 60.0
"""For a start that compiles nothing, on a busy machine: what updates need takes a minute and more to compile."""


@dataclass
class Image:
    """A root directory, and how a container of it starts."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": SEARCHED})
    workdir: str = "/"
    user: str = "0:0"
    command: Sequence[str] = ()

    def argv(self, command: Sequence[str], *, data: Path | None = None, wheels: Path | None = None) -> list[str]:
        """Return the command line in the image: with ``wheels`` to change it, or with ``data`` alone to write to."""
        root = shlex.quote(str(self.root))
        mounts = [f"mount --bind {root} {root}"]
        if data is not None:
            mounts += [f"mount -o remount,ro,bind {root}", f"mount -t tmpfs tmpfs {root}/tmp"]
            mounts += [f"mount --bind {shlex.quote(str(data))} {root}/var/lib/livesvm"]
        if wheels is not None:
            mounts += [f"mount --bind {shlex.quote(str(wheels))} {root}{WHEELS}"]
        mounts += [f"mount --rbind /{name} {root}/{name}" for name in ("proc", "dev", "sys")]
        user, _, group = self.user.partition(":")
        inside = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(command)}"
        as_user = f"setpriv --reuid {user} --regid {group} --clear-groups --no-new-privs"
        variables = shlex.join(f"{name}={value}" for name, value in self.environment.items())
        enter = f"exec env -i {variables} chroot {root} {as_user} /bin/sh -c {shlex.quote(inside)}"
        return ["unshare", "--mount", "sh", "-ec", "\n".join([*mounts, enter])]


class Build:
    """The stages of a Dockerfile, made one after the other."""

    def __init__(self, place: Path, wheels: Path, extra: str) -> None:
        self._place, self._wheels = place, wheels
        self._arguments = {"EXTRA": extra}
        self._stages: dict[str, Image] = {}
        self._image = Image(place)

    def run(self, dockerfile: str) -> Image:
        """Follow all instructions; raises CalledProcessError where a command of one fails."""
        lines = re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
        for line in filter(None, map(str.strip, lines)):
            word, _, rest = line.partition(" ")
            print(f"{word} {rest[:100]}", flush=True)
            getattr(self, f"_{word.lower()}")(rest.strip())
        return self._image

    def _from(self, rest: str) -> None:
        base, _, name = rest.partition(" AS ")
        base = Template(base).substitute(self._arguments)
        found = re.fullmatch(r"python:(3\.\d+)-slim-\w+(?:@sha256:[0-9a-f]{64})?", base)
        assert found is not None, base
        root = self._place / (name or "image")
        clean = self._place / "base"
        if not clean.exists():
            what = f"python3,python{found[1]},python3-venv,ca-certificates"
            command = ["debootstrap", "--variant=minbase", f"--include={what}", SUITES[found[1]], str(clean)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            (clean / "usr/local/bin/python").symlink_to(f"/usr/bin/python{found[1]}")
        subprocess.run(["cp", "--archive", str(clean), str(root)], check=True)
        self._image = self._stages[name] = Image(root)

    def _arg(self, rest: str) -> None:
        name, _, default = rest.partition("=")
        self._arguments[name] = self._image.environment[name] = self._arguments.get(name) or default.strip('"')

    def _env(self, rest: str) -> None:
        for word in shlex.split(rest):
            name, _, value = word.partition("=")
            self._image.environment[name] = value.replace("$PATH", self._image.environment["PATH"])

    def _workdir(self, rest: str) -> None:
        self._image.workdir = rest
        (self._image.root / rest.strip("/")).mkdir(parents=True, exist_ok=True)

    def _run(self, rest: str) -> None:
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS}
        image = Image(self._image.root, self._image.environment | offline, self._image.workdir)
        subprocess.run(image.argv(["/bin/sh", "-c", rest], wheels=self._wheels), check=True)

    def _copy(self, rest: str) -> None:
        words = shlex.split(rest)
        options = dict(word[2:].split("=") for word in words if word.startswith("--"))
        *sources, target = (word for word in words if not word.startswith("--"))
        context = self._stages[options["from"]].root if "from" in options else ROOT
        there = self._image.root / (Path(self._image.workdir) / target).relative_to("/")
        for source in sources:
            found = context / source.strip("/")
            place = there / found.name if target.endswith("/") or len(sources) > 1 else there
            if found.is_dir():
                left_out = shutil.ignore_patterns("__pycache__") if context == ROOT else None
                shutil.copytree(found, place, symlinks=True, ignore=left_out, dirs_exist_ok=True)
            else:
                shutil.copy2(found, place)

    def _user(self, rest: str) -> None:
        self._image.user = rest

    def _cmd(self, rest: str) -> None:
        self._image.command = [word.strip(' "') for word in rest.strip("[]").split(",")]

    def _told(self, rest: str) -> None:
        """Return the overridden settings of containers."""

    _label = _volume = _expose = _healthcheck = _told


def fetch(wheels: Path, extra: str, python: str) -> None:
    """Have this machine's pip fetch what the image installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    needed += project["project"]["optional-dependencies"][extra] if extra else []
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), "--python-version", python]
    subprocess.run([*command, "--only-binary=:all:", *needed], check=True)


def check_shells(image: Image, data: Path) -> None:
    """Find Ray and the Python that has it as operators look for them: by a shell, and by a login shell."""
    for shell in ("-c", "-lc"):
        what = "command -v ray && ray --version && python -c 'import ray, livesvm.service.ray.actor'"
        environment = image.environment | {"HOME": "/tmp"}
        inside = Image(image.root, environment, image.workdir, image.user)
        subprocess.run(inside.argv(["/bin/bash", shell, "--", what], data=data), check=True)


def check_service(image: Image, data: Path) -> None:
    """Run it as a container does, from the first start to an update."""
    port = free_port()
    own: dict[str, str] = {"LIVESVM_HOST": "127.0.0.1", "LIVESVM_PORT": str(port), "LIVESVM_LOG_FORMAT": "text"}
    inside = Image(image.root, image.environment | own, image.workdir, image.user)
    began = time.monotonic()
    with subprocess.Popen(inside.argv(image.command, data=data), stderr=subprocess.PIPE, text=True) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=START_SECONDS) as http:
                while not is_ready(http):
                    assert process.poll() is None, process.communicate()[1]
                    assert time.monotonic() - began < START_SECONDS, "it compiles, or does not start"
                    time.sleep(0.1)
                print(f"ready after {time.monotonic() - began:.1f} s", flush=True)
                http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
                rows = {"X": [[0.0, 1.0], [1.0, 0.0]], "y": [1, -1]}
                http.post("/models/m/update", json={"add": rows}).raise_for_status()
                assert http.get("/health/ready").json() == {"status": "ready"}  # nothing is being compiled
            made = Path("/proc", str(process.pid), "root", "tmp", "livesvm", "machine-code")
            assert not made.exists() or not list(made.iterdir()), sorted(made.iterdir())[:5]
        finally:
            process.terminate()
        reported = process.communicate()[1]
        assert process.returncode == 0, reported
    assert "machine code" not in reported, reported


def is_ready(http: httpx.Client) -> bool:
    """Return whether it is up and ready."""
    try:
        return http.get("/health/ready").is_success
    except httpx.TransportError:
        return False


def main() -> int:
    """Build it and try it; an error where something does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--extra", default="", help="as the build argument EXTRA")
    given = parser.parse_args()
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    python = dockerfile.partition("ARG PYTHON=python:")[2].partition("-")[0]
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        place.chmod(0o755)
        fetch(place / "wheels", given.extra, python)
        image = Build(place, place / "wheels", given.extra).run(dockerfile)
        data = place / "data"
        data.mkdir()
        user, _, group = image.user.partition(":")
        os.chown(data, int(user), int(group))
        check_service(image, data)
        if given.extra:
            check_shells(image, data)
    print("the image holds what it says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
