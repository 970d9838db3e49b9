"""How to solve, whatever the variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.frank_wolfe.core_set import SAMPLE

Variant = Literal["auto", "fw", "mfw"]

STEPS = 100_000  #: of one coefficient, where no number is given: each costs a kernel row of every example
CORE_STEPS = 100_000_000  #: of one coefficient of a core, or of examples that join it
BLOCKS = 1_000_000


@dataclass(frozen=True)
class Options:
    """How to solve."""

    variant: Variant = "auto"
    tol: float = 0.1  #: relative gap
    sampling: int | None = SAMPLE  #: examples of a sample; None: all are looked at; the default variant does not sample
    cache_bytes: int = 2**30  #: what kernel rows may take
    max_steps: int | None = None  #: None: the default of the variant
    seed: int = 0  #: of what is left to chance
    looks_at_all: bool = True  #: whether a sample without any example to gain by is followed by a look at all

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            known = ", ".join(get_args(Variant))
            raise InvalidInput(f"unknown variant {self.variant!r}; one of {known}", field="variant")
