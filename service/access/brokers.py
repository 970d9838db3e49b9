"""URLs of MQTT brokers.

    mqtt://[user:password@]host:1883          mqtts://[user:password@]host:8883  over TLS

The URL's query may contain options. ``version`` is the version of MQTT, 5 or 3.1.1; the default is 5. With TLS,
``ssl_ca_certs`` names a file of certificate authorities. ``ssl_certfile`` and ``ssl_keyfile`` name the files of a
client certificate, for a broker that requires one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES = ("mqtt", "mqtts")
_PORTS = {"mqtt": 1883, "mqtts": 8883}
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_VERSIONS = {"3.1.1": False, "5": True}


@dataclass(frozen=True)
class Broker:
    """Address and login of a broker, and ``is_five``: whether it uses MQTT 5 instead of MQTT 3.1.1."""

    host: str
    port: int
    tls: bool = False
    is_five: bool = True
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ssl_ca_certs: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None

    @property
    def address(self) -> str:
        """Host and port of the broker, in the form in which messages show the address."""
        return f"{self.host}:{self.port}"


def is_broker(url: str) -> bool:
    """Return whether a URL has the scheme of an MQTT broker."""
    return url.partition("://")[0] in SCHEMES


def parse_broker(url: str) -> Broker:
    """Parse the URL of a broker; raises ValueError with a message that never contains the password."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise ValueError("the port of an MQTT URL is a number; a password in it is quoted as in %2F") from None
    if parts.scheme not in SCHEMES or not parts.hostname or parts.path.strip("/") or parts.fragment:
        raise ValueError("an MQTT URL is mqtt://host:1883 or mqtts://host:8883, with options behind a question mark")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls, version = parts.scheme == "mqtts", given.pop("version", "5")
    if version not in _VERSIONS:
        raise ValueError("the version of an MQTT URL is 5 or 3.1.1")
    for name in given:
        if name not in _TLS_OPTIONS or not tls:
            known = ", ".join(["version", *(_TLS_OPTIONS if tls else ())])
            raise ValueError(f"an {parts.scheme}:// URL has no option {name[:32]!r}; it has {known}")
    if "ssl_keyfile" in given and "ssl_certfile" not in given:
        raise ValueError("ssl_keyfile of an MQTT URL goes with ssl_certfile")
    user, password = (None if text is None else unquote(text) for text in (parts.username, parts.password))
    address = parts.hostname, port or _PORTS[parts.scheme]
    return Broker(*address, tls, _VERSIONS[version], user, password, *(given.get(name) for name in _TLS_OPTIONS))
