"""Find environment variables that look like settings of the service and are none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from livesvm.service import crash

OTHERS = ("LIVESVM_URL", "LIVESVM_KEY", "LIVESVM_BUILD_CPU")
"""Variables that the command line's client and the build of the package read; they may be set for a service too."""

GONE = {"LIVESVM_WORKERS": "use LIVESVM_RAY=local, with models in Redis"}
"""Settings of earlier versions, and what to use in their place."""


def check(environment: Mapping[str, str], prefix: str, settings: Mapping[str, object]) -> None:
    """Raise ValueError for variables with our prefix that no part of the service reads, or that are blank.

    Parameters
    ----------
    settings : the default of each setting, by variable; a setting with an empty default may be blank
    """
    ours = {name: value for name, value in sorted(environment.items()) if name.upper().startswith(prefix)}
    unknown = [name for name in ours if name.upper() not in {*settings, crash.VARIABLE, *OTHERS}]
    blank = [name for name, value in ours.items() if not value.strip() and value != settings.get(name.upper())]
    faults = [_unknown(name, prefix, settings) for name in unknown]
    faults += [f"{name} is blank; unset it to have its default" for name in blank if name not in unknown]
    if faults:
        raise ValueError("; ".join(faults))


def _unknown(name: str, prefix: str, settings: Iterable[str]) -> str:
    if name.upper() in GONE:
        return f"{name} is gone: {GONE[name.upper()]}"
    endings = [setting.removeprefix(prefix) for setting in settings]
    nearest = get_close_matches(name.upper().removeprefix(prefix), endings, n=1)
    hint = f"did you mean {prefix}{nearest[0]}?" if nearest else "`livesvm settings` lists them all"
    return f"{name} is no setting; {hint}"
