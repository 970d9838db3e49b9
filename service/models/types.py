"""Types that the whole service shares."""

from __future__ import annotations

from typing import Literal

ServingState = Literal["live", "restoring", "failed", "held", "fenced", "behind"]
