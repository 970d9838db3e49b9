"""Connect to the Redis server of a URL: by TCP with or without TLS, by a Unix socket, or through Sentinel.

    redis://[user:password@]host:6379/0          rediss://...  the same over TLS
    unix:///run/redis.sock?db=0
    redis+sentinel://[user:password@]host:26379,host2:26379/name/0       rediss+sentinel://...

The query of the URL may set further options, among them ``ssl_ca_certs``, ``sentinel_username`` and
``sentinel_password``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from livesvm.service.store.base import StoreError

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
LEAST_VERSION = (6, 2)
_SENTINEL_PORT = 26379
_REFUSED = """
local refused, at, number = {}, 1, 0
while redis.acl_check_cmd and at <= #ARGV do
  local length = tonumber(ARGV[at])
  local is_known, is_allowed = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + length))
  if not (is_known and is_allowed) then refused[#refused + 1] = number end
  at, number = at + length + 1, number + 1
end
return refused
"""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def connect(url: str, timeout: float) -> Any:
    """Return a client of the Redis server at ``url``; each of its calls gives up after ``timeout`` seconds.

    The client connects at its first call, and repeats no call, because only its caller knows which calls may be
    repeated. Raises ValueError for a URL with a scheme that is not in :data:`SCHEMES`. (The return type is Any, as the
    library's annotations do not say that answers are bytes.)
    """
    import redis  # a tenth of a second that a service on the embedded store need not spend
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    options: dict[str, Any] = {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "health_check_interval": 0,
    }
    scheme = check_url(url)
    if scheme.endswith("+sentinel"):
        return _behind_sentinel(url, options)
    return redis.Redis.from_url(url, **options)


def root_of(prefix: str) -> str:
    """Return the prefix of a store's keys; its braces make a Redis cluster keep all keys in one hash slot."""
    return "{" + prefix + "}"


def named_urls(text: str, check: Callable[[str], object]) -> dict[str, str]:
    """Return URLs by name, from ``name=url`` pairs with spaces between them; raises ValueError, also from ``check``."""
    found: dict[str, str] = {}
    for part in text.split():
        name, _, url = part.partition("=")
        if not _NAME.fullmatch(name) or name in found:
            raise ValueError("connections are told as name=url, separated by spaces, each name once")
        check(url)
        found[name] = url
    return found


def check_url(url: str) -> str:
    """Return the scheme of a URL; raises ValueError, without the password, if :func:`connect` cannot use the URL."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"a Redis URL begins with one of {', '.join(scheme + '://' for scheme in SCHEMES)}")
    if parts.scheme.endswith("+sentinel"):
        _addresses(url)
        if not parts.path.strip("/"):
            raise ValueError("a Sentinel URL names its service: redis+sentinel://host:26379/name/0")
    return parts.scheme


def _addresses(url: str) -> list[tuple[str, int]]:
    found = []
    for place in urlsplit(url).netloc.rpartition("@")[2].split(","):
        one = urlsplit(f"//{place}")
        if not one.hostname:
            raise ValueError("a Sentinel URL lists host:port,host:port")
        found.append((one.hostname, one.port or _SENTINEL_PORT))
    return found


def _behind_sentinel(url: str, options: dict[str, Any]) -> Any:
    from redis.sentinel import Sentinel

    parts = urlsplit(url)
    service, _, database = parts.path.strip("/").partition("/")
    given = dict(parse_qsl(parts.query))
    sentinel: dict[str, Any] = {
        name.removeprefix("sentinel_"): given.pop(name)
        for name in ("sentinel_username", "sentinel_password")
        if name in given
    }
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    common: dict[str, Any] = options | given
    if parts.scheme.startswith("rediss"):
        common["ssl"] = True
    own = {"username": unquote(user) or None, "password": unquote(password) or None, "db": int(database or 0)}
    behind: Any = Sentinel
    return behind(_addresses(url), sentinel_kwargs=common | sentinel, **common).master_for(service, **own)


def check_server(client: Any, commands: str, key: str) -> None:
    """Raise StoreError if a server is a Redis Cluster or a Sentinel, is too old, or refuses one of ``commands``.

    ``commands`` lists commands with their arguments, separated by commas; ``key`` replaces the word KEY in the
    arguments.
    """
    import redis

    try:
        reported = client.execute_command("HELLO")  # which every user may
    except redis.ResponseError:
        reported = {}  # something in between, which speaks like Redis
    pairs = reported.items() if isinstance(reported, dict) else zip(reported[::2], reported[1::2], strict=True)
    facts = {bytes(name): value for name, value in pairs}
    mode, version = (bytes(facts.get(name, b"")).decode() for name in (b"mode", b"version"))
    if mode == "cluster":
        raise StoreError("this is a Redis Cluster, which LiveSVM does not support: use a single Redis, or Sentinel")
    if mode == "sentinel":
        raise StoreError("this is a Sentinel: its URL is redis+sentinel://host:26379/name/0, with the service's name")
    if version and tuple(map(int, version.split(".")[:2])) < LEAST_VERSION:
        raise StoreError(f"this is Redis {version}, and LiveSVM needs 6.2 or newer")
    if refused := refused_commands(client, commands, key):
        rights = " ".join(f"+{command.lower()}" for command in refused)
        names = ", ".join(refused)
        raise StoreError(f"Redis refuses {names} to this user, or the key {key}: allow it {rights} and such keys")


def refused_commands(client: Any, commands: str, key: str) -> list[str]:
    """Return the names of the commands that the server would refuse to this user; empty before Redis 7."""
    import redis

    listed = [[key if word == "KEY" else word for word in command.split()] for command in commands.split(",")]
    flat = [word for command in listed for word in (len(command), *command)]
    try:
        numbers = client.eval(_REFUSED, 0, *flat)
    except redis.exceptions.NoPermissionError:
        return ["EVAL"]
    return [listed[number][0] for number in numbers]
