"""Schemas of answers that tell how the service reads a file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class FileColumn(BaseModel):
    """One column of a file."""

    column: str
    kind: Literal["time", "series", "number", "text"]
    example: str = Field(description="The first cell that is there, as it is sent.")
    distinct: int = Field(description="Different cells among the first 20,000 rows.")
    values: list[str] = Field(description="These, if there are at most 50.")


class InspectedFile(BaseModel):
    """How the service reads a file: its form, its columns and its first rows."""

    understood: dict[str, Any] = Field(description="For people: separator, encoding, times, interval, what is missing.")
    columns: list[FileColumn]
    rows: list[dict[str, str]] = Field(description="The first rows as they are sent.")
    commands: list[str] = Field(description="That would follow, for a feed, a fleet or a model.")
    time: str | None = Field(description="The column of times.")
    series: str | None = Field(description="The column that names the series of each row.")
    targets: list[str] = Field(description="Columns of numbers that change, the likeliest to be forecast first.")
    count: int = Field(description="Rows.")
    zone: str | None = Field(description="Zone of times that have none, as the file or the call names it.")
    align: str | None = Field(description="How the rows were put on a grid, such as nearest:5min.")
    every: str | None = Field(description="The interval that all times keep to, as a feed takes it.")
