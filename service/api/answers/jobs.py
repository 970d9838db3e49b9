"""Schemas of answers about jobs, which are long computations on copies of models and feeds."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field


class Job(BaseModel):
    """A long computation on a copy of a model or feed; fields that do not apply to the job are absent."""

    id: str
    kind: str
    model: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float = Field(description="From 0 to 1.")
    done: int = Field(description="Completed steps.")
    total: int = Field(description="Steps in all; 0 as long as that is not known.")
    version: int | None = Field(default=None, description="Version of the model that it works on, once it runs.")
    waits_for: str | None = Field(default=None, description="What it waits for, as long as it does.")
    asked: dict[str, Any]
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: dict[str, Any] | None = None
    withheld: list[str] | None = Field(
        default=None, description="Dotted names of fields with examples, left out as the API key may not list these."
    )
    error: dict[str, Any] | None = Field(default=None, description="Problem document; `interrupted` after a restart.")


class SuspectedLabel(BaseModel):
    """A label that may be wrong."""

    key: int | str
    label: float | str = Field(description="That the example has.")
    better: float | str = Field(description="Of the other labels the one that fits best.")
    margin: float = Field(description="By how much the given label is ahead; negative: the other one fits better.")
    doubt: float = Field(description="Probability that the given label is the wrong one of the two.")
    why: list[int | str] = Field(description="Nearest examples that have the better label, the nearest first.")
    as_of: int | None = Field(
        default=None,
        description="Version in which the path without the example was followed: the margin is exact if this is the "
        "ranking's. Null: it has too little influence to be in doubt without it.",
    )


class ConfirmedLabels(BaseModel):
    """Examples with labels that are known to be right."""

    keys: list[int | str]


class SuspectPage(BaseModel):
    """A page of the newest ranking of a model's labels, with the most doubtful label first."""

    job: str
    version: int = Field(description="Version of the model that was ranked.")
    current: int = Field(description="Version of the model now.")
    n_examples: int = Field(description="In the whole ranking.")
    n_doubted: int = Field(description="Labels with a negative margin.")
    confirmed: ConfirmedLabels = Field(description="Left out of the ranking, as their labels are known to be right.")
    method: Literal["leave_one_out", "k_fold"]
    next: int | None = Field(description="The offset of the next page, if there is one.")
    suspects: list[SuspectedLabel]


class JobList(BaseModel):
    """All jobs of all front ends, oldest first, without their results."""

    jobs: list[Job]
    unanswered: list[str] | None = Field(
        default=None, description="Front ends that are away and have unfinished jobs; absent if there are none."
    )
