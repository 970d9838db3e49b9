"""Schemas of answers with certificates, which prove that a model is optimal."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Robust(BaseModel):
    """Proof that a robust model is a local optimum: `violation`, and the least distance of an example to the cutoff."""

    theta: float
    s: float
    n_outliers: int
    n_held: int
    violation: float
    wall_distance: float | None = None


class Approximation(BaseModel):
    """The full kernel of a model with `components`, and the share of this kernel that the model's kernel leaves out."""

    kernel: str = Field(description="The whole one.")
    components: int = Field(description="Landmarks.")
    left_out: float = Field(description="Share of the kernel's trace on the window that is not in the model's kernel.")


class PairCertificate(BaseModel):
    """Proof of optimality of the model that separates one pair of classes."""

    classes: list[int | str]
    relative_gap: float
    duality_gap: float
    max_violation: float
    rounding: float
    n_examples: int


class Certificate(BaseModel):
    """Proof of a model's optimality, computed from the window's data, and from the outliers of a robust model."""

    version: int
    relative_gap: float
    duality_gap: float
    max_violation: float
    rounding: float = Field(description="The largest gap that rounding can make: a `duality_gap` below it is none.")
    primal: float
    dual: float
    n_examples: int
    robust: Robust | None = None
    approximation: Approximation | None = Field(
        default=None, description="Of a model with `components`: all else here holds for its own kernel."
    )
    pairs: list[PairCertificate] | None = Field(
        default=None, description="For more than two classes; fields above are sums, or the worst gap and violation."
    )
    worst: list[int | str] | None = Field(default=None, description="The pair with the largest gap.")
