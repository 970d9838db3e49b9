"""Run Lua scripts by their hash; a script that the server does not know yet is sent in full."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from redis.exceptions import NoScriptError

PATTERNS = ("*append*", "maxmemory-policy")
"""Patterns of the settings that decide whether a server keeps the records that it acknowledges."""


class ScriptRunner:
    """Runs scripts on one client; safe from any thread."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._hashes: dict[str, str] = {}

    def _hash(self, script: str) -> str:
        if script not in self._hashes:
            self._hashes[script] = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        return self._hashes[script]

    def __call__(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script, and return its answer."""
        try:
            return self._client.evalsha(self._hash(script), len(keys), *keys, *arguments)
        except NoScriptError:  # it did not run: a server forgets its scripts when it starts
            return self._client.eval(script, len(keys), *keys, *arguments)

    def with_config(
        self, script: str, calls: Sequence[tuple[Sequence[str], Sequence[Any]]]
    ) -> tuple[list[Any], Mapping[str, str]]:
        """Run a script once for each pair of keys and arguments; return the answers or errors, and the settings.

        The settings are the server's present ones with names that match :data:`PATTERNS`.
        """
        pipe = self._client.pipeline(transaction=False)
        for keys, arguments in calls:
            pipe.evalsha(self._hash(script), len(keys), *keys, *arguments)
        for pattern in PATTERNS:
            pipe.config_get(pattern)
        found = pipe.execute(raise_on_error=False)
        answers, settings = found[: -len(PATTERNS)], found[-len(PATTERNS) :]
        for number, (keys, arguments) in enumerate(calls):
            if isinstance(answers[number], NoScriptError):
                answers[number] = self._client.eval(script, len(keys), *keys, *arguments)
        return answers, {name: value for part in settings if isinstance(part, dict) for name, value in part.items()}
