"""Save models that their store has lost to files when the service stops; `livesvm store put` brings them back."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from livesvm.service.history.writeback import Snapshot, put, take
from livesvm.service.store import codec
from livesvm.service.store.base import Store, StoreDamaged
from livesvm.service.store.files import write_whole

DIRECTORY = "unstored"
"""The files' directory, in the data directory."""
_ENDING = ".model"

log = logging.getLogger(__name__)


def rescue(data_dir: Path, model: str, spec: bytes, snapshot: Snapshot) -> None:
    """Write a model that the store has lost to a file, and log the file's path or the failure."""
    sequence, data, version = snapshot
    path = data_dir / DIRECTORY / f"{_file_name(model)}-{version}{_ENDING}"
    document = {"model": model, "spec": spec, "sequence": sequence, "data": data, "version": version}
    try:
        write_whole(path, codec.encode(document))
    except OSError as error:
        log.error("model %s, version %d, which the store has lost, is lost: %s", model, version, error)
        return
    log.error("model %s, which the store has lost, is kept in %s: livesvm store put brings it back", model, path)


def tell_of(data_dir: Path) -> None:
    """Log a warning for each rescued model that is still in its file."""
    for path in sorted((data_dir / DIRECTORY).glob(f"*{_ENDING}")):
        log.warning("%s holds a model that its store had lost: livesvm store put it back, or remove the file", path)


def remove_all(data_dir: Path, model: str) -> int:
    """Remove the files of a model; return how many there were."""
    found = files_of(data_dir, model)
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def files_of(data_dir: Path, model: str) -> list[Path]:
    """Return the paths of a model's files, unfinished ones too."""
    named = _file_name(model)
    name = re.compile(rf"{re.escape(named)}-\d+{re.escape(_ENDING)}(\.new)?")
    return [path for path in (data_dir / DIRECTORY).glob(f"{named}-*") if name.fullmatch(path.name)]


def rescued(data_dir: Path, models: Iterable[str]) -> set[str]:
    """Return which of these models have files with rescued versions."""
    there = {path.name.rpartition("-")[0] for path in (data_dir / DIRECTORY).glob("*")}
    return {model for model in models if _file_name(model) in there} if there else set()


def _file_name(model: str) -> str:
    """Return a file name, without path separators, for the id of a model or of a fleet's series."""
    return model.replace("/", "@")


def snapshot_in(path: Path) -> bytes:
    """Return the snapshot in the file of a rescued model; raises StoreDamaged."""
    try:
        data: bytes = codec.decode(path.read_bytes())["data"]
    except OSError as error:
        raise StoreDamaged(f"{path} cannot be read: {error}") from error
    return data


def bring_back(path: Path, store: Store, patience: float) -> str:
    """Write the model in a rescue file into a store; return a line of text that names the model's version.

    Raises WritebackRefused, OSError or StoreError.
    """
    found = codec.decode(path.read_bytes())
    model, sequence, version = found["model"], found["sequence"], found["version"]
    lease = take(store, model, found["spec"], sequence, patience)
    try:
        put(store, lease, (sequence, found["data"], version))
    finally:
        store.release(lease)
    return f"{model}: version {version}, up to record {sequence}"
