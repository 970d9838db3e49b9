"""The ``livesvm`` command."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence

_BEFORE_NUMPY = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMPY_MADVISE_HUGEPAGE": "0",
}
"""Read once, when the libraries are loaded. Huge pages are not asked for: a virtual machine may have to find each of
them when it is first written to, which is what bringing a large model back would then wait for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    options = _parser().parse_args(arguments)
    command: str = options.command
    return {"serve": _serve, "settings": _settings, "key": _key, "store": _store}[command](options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="livesvm", description="Live support vector machines.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help="run the service; settings come from the environment (livesvm settings)")
    settings = commands.add_parser("settings", help="print every setting, its default and its meaning")
    settings.add_argument("--markdown", action="store_true", help="as a table for a document")
    key = commands.add_parser("key", help="make an API key")
    key.add_argument("--scope", choices=("read", "learn", "admin"), required=True)
    key.add_argument("--label", default="key", help="who it is for, as the entry will say")
    store = commands.add_parser("store", help="move what is stored").add_subparsers(dest="action", required=True)
    copy = store.add_parser("copy", help="copy every model from one store to another, and check the copy")
    copy.add_argument("source", help="a data directory, or a Redis URL")
    put = store.add_parser("put", help="bring back a model that a stopping service has kept as a file")
    put.add_argument("file", help="as the service's log named it")
    for action in (copy, put):
        action.add_argument("target", help="a data directory, or a Redis URL")
        action.add_argument("--prefix", default="livesvm", help="first part of every key in Redis")
        action.add_argument("--patience", type=float, default=10.0, help="seconds to wait for a service that has died")
    return parser


def _serve(options: argparse.Namespace) -> int:
    gc.disable()  # nothing that a start makes is garbage; the restored service collects again
    for name, value in _BEFORE_NUMPY.items():
        os.environ.setdefault(name, value)
    from pydantic import ValidationError

    from livesvm.service.process.start import start
    from livesvm.service.settings import PREFIX, Settings

    try:
        settings = Settings()
    except ValidationError as error:
        for fault in error.errors():
            name = PREFIX + str(fault["loc"][0]).upper() + ": " if fault["loc"] else ""
            print(f"livesvm: {name}{fault['msg'].removeprefix('Value error, ')}", file=sys.stderr)
        return 2
    return start(settings)


def _settings(options: argparse.Namespace) -> int:
    from livesvm.service.settings import table

    if options.markdown:
        print("| setting | default | meaning |\n| --- | --- | --- |")
    for name, default, meaning in table():
        if options.markdown:
            print(f"| `{name}` | {f'`{default}`' if default else '(empty)'} | {meaning} |")
        else:
            print(f"{name}={default}\n    {meaning}")
    return 0


def _key(options: argparse.Namespace) -> int:
    from livesvm.service.access.keys import new_key

    secret, entry = new_key(options.label, options.scope)
    print(f"key, for the caller, shown once:  {secret}")
    print(f"entry for LIVESVM_API_KEYS:       {entry}")
    return 0


def _store(options: argparse.Namespace) -> int:
    from livesvm.service.errors import WritebackRefused
    from livesvm.service.store.base import StoreError

    try:
        {"copy": _copy, "put": _put}[options.action](options)
    except (StoreError, WritebackRefused, OSError, ValueError) as error:
        print(f"livesvm: {error}", file=sys.stderr)
        return 1
    return 0


def _copy(options: argparse.Namespace) -> None:
    from contextlib import ExitStack
    from pathlib import Path

    from livesvm.service.store.copy import Copied, copy_documents, copy_models
    from livesvm.service.store.places import open_place
    from livesvm.service.store.sqlite import DATABASE

    def say(copied: Copied) -> None:
        """Print what was copied of one model."""
        counts = f"{copied.records} records, {copied.snapshots} snapshots, {copied.requests} requests"
        print(f"{copied.model}: up to record {copied.sequence}; {counts}")

    if "://" not in options.source and not (Path(options.source) / DATABASE).is_file():
        raise ValueError(f"there is no store in {options.source}")
    with ExitStack() as opened:
        source, target = (open_place(place, options.prefix, opened) for place in (options.source, options.target))
        copy_documents(source, target, lambda at: print(f"{at.kind} {at.name}"))
        copy_models(source, target, options.patience, say)


def _put(options: argparse.Namespace) -> None:
    from contextlib import ExitStack
    from pathlib import Path

    from livesvm.service.history.rescue import bring_back
    from livesvm.service.store.places import open_place

    with ExitStack() as opened:
        print(bring_back(Path(options.file), open_place(options.target, options.prefix, opened), options.patience))


if __name__ == "__main__":
    sys.exit(main())
