"""Schemas of answers with the examples of a model's window."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field


class SparseExample(BaseModel):
    """The features of a sparse example: indices and values of the features that are not 0."""

    indices: list[int] = Field(description="From 0, ascending.")
    values: list[float]
    n_features: int


class Example(BaseModel):
    """One example of a window."""

    key: int | str
    x: list[float] | SparseExample | dict[str, str | float | bool | None] = Field(
        description="Its features as they were sent; for a model with `columns`, its row, with null for missing cells."
    )
    y: float | str = Field(description="Its target; 1 where the task has none.")
    weight: float
    time: datetime = Field(description="The time that came with it, or else of its arrival.")
    side: Literal["free", "bound", "none"] = Field(description="On the margin, at the bound, without a coefficient.")
    coefficient: float | list[float] = Field(
        description="Signed; f(x) = sum of coefficient k(x_i, x), and an intercept. With more than two classes, one "
        "for each other class, from the pair of the two."
    )
    outlier: bool = Field(description="Whether a robust model counts it as one.")
    tags: list[str] = Field(description="Words by which examples can be erased together.")


class ExamplePage(BaseModel):
    """A page of the examples in a model's window, oldest first."""

    version: int = Field(description="Pages of one version show one window.")
    n_examples: int = Field(description="In the whole window.")
    next: int | None = Field(description="The offset of the next page, if there is one.")
    examples: list[Example]
