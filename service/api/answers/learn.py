"""Schemas of answers to updates, and to calls that write a model to the store."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from livesvm.service.api.answers.models import DriftAlarm, TuningShown, Warned
from livesvm.service.api.answers.operations import Problem
from livesvm.service.models.fields import KEY_SCHEMA

AnswerKeys = Annotated[list[int | str], WithJsonSchema({"type": "array", "items": KEY_SCHEMA})]


class UpdateAnswer(BaseModel):
    """The effect of an update on a model, and the model's new version."""

    version: int
    added: AnswerKeys
    removed: AnswerKeys = Field(description="Includes the keys of examples that left because the window was full.")
    dropped: AnswerKeys | None = Field(
        default=None, description="Keys of examples that came too late for the window; absent if there are none."
    )
    ignored: AnswerKeys | None = Field(
        default=None, description="Keys of rows that were left out, as they were known; absent if there are none."
    )
    n_ahead: int | None = Field(
        default=None, description="Examples with a time that has not come yet; absent where there are none."
    )
    changed: int = Field(description="Examples that stayed and got another target, weight or C.")
    events: int = Field(description="Events on the solution path.")
    n_examples: int
    n_free: int = Field(description="Examples on the margin.")
    n_bound: int = Field(description="Examples at the bound.")
    seconds: float = Field(description="Time the path took.")
    max_violation: float = Field(description="Largest violation of the optimality conditions.")
    relative_gap: float | None = Field(
        description="Duality gap over the objective, a bound of the distance from the optimum. `l2svc`: that of the "
        "last training; a certificate has that of the present window."
    )
    durability: Literal["fsynced", "logged", "memory"]
    gamma: float | None = Field(default=None, description="After a change of parameters: the gamma of the kernel.")
    resolved: bool | None = Field(default=None, description="After it, whether the window was solved from nothing.")
    retrained: bool | None = Field(
        default=None, description="True where the window was solved from nothing in place of a path; else absent."
    )
    abandoned: bool | None = Field(
        default=None,
        description="True where a path was given up, as it failed or would have been more work than solving from "
        "nothing; else absent.",
    )
    drift: DriftAlarm | None = Field(default=None, description="An alarm that these examples gave; absent without one.")
    tuning: TuningShown | None = Field(
        default=None, description="Of a model that tunes itself: as this version has it; absent otherwise."
    )
    warnings: list[Warned] | None = Field(default=None, description="Absent where there are none.")


class ModelUpdated(BaseModel):
    """The result of one update in a call that sent several updates."""

    model: str
    status: int = Field(description="The status that a call with this update alone would have had.")
    answer: UpdateAnswer | None = Field(default=None, description="Absent if the update was refused.")
    problem: Problem | None = Field(default=None, description="Absent if the update was applied.")


class UpdatesAnswer(BaseModel):
    """The results of all updates in a call, in the order in which the call sent the updates."""

    updates: list[ModelUpdated]
    replayed: int = Field(description="Updates that an earlier call with this Idempotency-Key had made.")


class Checkpoint(BaseModel):
    """The model's version that a new snapshot contains."""

    version: int
    seconds: float


class Writeback(BaseModel):
    """The model's version that was written back to the store."""

    version: int
    written: bool = Field(description="False when the store had lost nothing, and nothing was done.")
    seconds: float
