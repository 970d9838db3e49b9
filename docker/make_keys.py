"""Write the keys that compose.yaml needs, once: in ``secrets/``, their hashes in ``secrets/keys/api-keys``.

Run by ``make keys``. Keys that are there already are kept.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from livesvm.service.access.keys import new_key

HERE = Path(__file__).parent
SECRETS = HERE / "secrets"
KEYS = SECRETS / "keys/api-keys"
ENVIRONMENT = HERE / ".env"
"""Where an earlier version put the hashes."""


def write_secret(path: Path, value: str) -> None:
    """Write one secret; other users are kept out by the directory, the containers' users read the file."""
    path.write_text(value)
    path.chmod(0o644)


def main() -> None:
    """Make an admin key, a key for the metrics, and Grafana's password."""
    if KEYS.exists():
        print(f"{KEYS} is there already; remove it to make new keys")
        return
    SECRETS.mkdir(mode=0o700, exist_ok=True)
    KEYS.parent.mkdir(exist_ok=True)
    KEYS.parent.chmod(0o755)
    if ENVIRONMENT.exists():
        entries = ENVIRONMENT.read_text().partition("LIVESVM_API_KEYS=")[2].partition("\n")[0]
        write_secret(KEYS, entries.replace(",", "\n") + "\n")
        print(f"wrote {KEYS} from {ENVIRONMENT}, which is not read any more")
        return
    admin, admin_entry = new_key("admin", "admin")
    metrics, metrics_entry = new_key("prometheus", "read")
    write_secret(SECRETS / "admin", admin)
    write_secret(SECRETS / "metrics", metrics)
    write_secret(SECRETS / "grafana", secrets.token_urlsafe(24))
    write_secret(KEYS, f"{admin_entry}\n{metrics_entry}\n")
    print(f"wrote {SECRETS}/; requests need the key in {SECRETS / 'admin'}")


if __name__ == "__main__":
    main()
