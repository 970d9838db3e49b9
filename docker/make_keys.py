"""Write the keys that compose.yaml needs, once: ``.env`` with their hashes, ``secrets/`` with the secrets.

Run by ``make keys``. Keys that are there already are kept.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from livesvm.service.access.keys import new_key

HERE = Path(__file__).parent
ENVIRONMENT = HERE / ".env"
SECRETS = HERE / "secrets"


def write_secret(name: str, value: str) -> None:
    """Write one secret; other users are kept out by the directory, the containers' users read the file."""
    path = SECRETS / name
    path.write_text(value)
    path.chmod(0o644)


def main() -> None:
    """Make an admin key, a key for the metrics, and Grafana's password."""
    if ENVIRONMENT.exists():
        print(f"{ENVIRONMENT} is there already; remove it to make new keys")
        return
    SECRETS.mkdir(mode=0o700, exist_ok=True)
    admin, admin_entry = new_key("admin", "admin")
    metrics, metrics_entry = new_key("prometheus", "read")
    write_secret("admin", admin)
    write_secret("metrics", metrics)
    write_secret("grafana", secrets.token_urlsafe(24))
    ENVIRONMENT.write_text(f"LIVESVM_API_KEYS={admin_entry},{metrics_entry}\n")
    ENVIRONMENT.chmod(0o600)
    print(f"wrote {ENVIRONMENT} and {SECRETS}/; requests need the key in {SECRETS / 'admin'}")


if __name__ == "__main__":
    main()
