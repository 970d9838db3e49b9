"""Datasets."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field


class Dataset(BaseModel):
    """A stored dataset."""

    name: str
    format: Literal["npz", "svmlight", "csv", "parquet"]
    n_examples: int
    n_features: int
    is_sparse: bool = Field(description="Whether it is kept, and used, as CSR.")
    n_stored: int = Field(description="Entries of X that are stored.")
    labels: list[float] | list[str] | None = Field(description="Distinct targets, if there are at most 20.")
    has_targets: bool
    has_weights: bool
    has_keys: bool = Field(default=False, description="Whether erasures find rows by key.")
    understood: dict[str, Any] | None = Field(default=None, description="How a csv file was read: `separator`, ...")
    columns: list[dict[str, Any]] | None = Field(
        default=None, description="Of a table that keeps words, times and missing cells: their names and kinds."
    )
    bytes: int = Field(description="Size of its numbers on the disk.")
    uploaded_bytes: int
    sha256: str = Field(description="Of the upload; after an erasure of rows, of the checksums of its files.")
    created_at: datetime
    is_here: bool = Field(
        description="Whether its files are on the machine that answers. Over Ray, jobs get them from the front end "
        "that has them; without Ray, upload it again."
    )


class DatasetList(BaseModel):
    """All stored datasets, sorted by name."""

    datasets: list[Dataset]
