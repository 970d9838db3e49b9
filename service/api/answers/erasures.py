"""Schemas of answers about erasures, and of the receipts that prove them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from livesvm.service.api.answers.certificates import Certificate

RESPELLED = "Stored keys that differ from one asked for only as a number from its text; ask for them as well."


class ErasedKeys(BaseModel):
    """Salted hashes of the keys of the erased examples, or of the times of a feed's erased readings."""

    count: int
    in_window: int = Field(description="How many of these examples the window had.")
    hash: str
    salt: str
    hashes: list[str]
    tags: list[str] = Field(default_factory=list, description="Hashes of the tags by which they were named.")
    not_found: list[str] = Field(default_factory=list, description="Hashes of keys and tags that are stored nowhere.")
    respelled: list[str] = Field(
        default_factory=list,
        description="Hashes of stored keys that differ from one asked for only as a number from its text, and were not "
        "asked for.",
    )


class ErasedRows(BaseModel):
    """A dataset, and the number of rows that were removed from it."""

    name: str
    rows: int


class FeedProof(BaseModel):
    """Proof of optimality of all models of a feed: the largest gap and the largest violation among these models."""

    version: int
    relative_gap: float
    max_violation: float
    n_examples: int


class ErasedPart(BaseModel):
    """What an erasure in several models or feeds has removed from one of them."""

    model: str
    kind: Literal["model", "feed"]
    version_before: int
    version_after: int
    in_window: int
    certificate: Certificate | FeedProof | None
    places: dict[str, str]


class RequestMark(BaseModel):
    """Hashes of a request's Idempotency-Key and of its body."""

    name: str
    body: str


class Receipt(BaseModel):
    """A document, signed by the service, that states what was erased, where, when and at which caller's request."""

    receipt: str
    model: str = Field(description="Id of the model, feed or fleet; `*` for everywhere.")
    kind: Literal["model", "feed", "fleet", "everywhere"]
    parts: list[ErasedPart] = Field(
        default_factory=list, description="For `everywhere`, each model and feed; for a fleet, each series."
    )
    request: RequestMark | None = Field(default=None, description="The request, where it had an Idempotency-Key.")
    asked_at: datetime
    asked_by: str | None = Field(description="Label of the API key.")
    erased_at: datetime
    kept_until: datetime
    version_before: int | None = Field(default=None, description="Of one model or feed.")
    version_after: int | None = Field(default=None, description="Of one model or feed.")
    keys: ErasedKeys
    datasets: list[ErasedRows] = Field(default_factory=list, description="Datasets from which rows were removed.")
    certificate: Certificate | FeedProof | None = Field(default=None, description="Of the optimum without them.")
    elsewhere: list[str] = Field(
        default_factory=list, description="Other models and feeds that contain some of the keys or tags."
    )
    refused: dict[str, str] = Field(
        default_factory=dict, description="Models and feeds that could not be asked, and why."
    )
    places: dict[str, str] = Field(description="What was searched and rewritten, and what was not.")
    public_key: str
    signature: str = Field(description="Ed25519, of the rest as JSON without spaces.")


class EraseAnswer(BaseModel):
    """The result of an erasure: the model's version without the erased examples, and the receipt."""

    version: int
    removed: int = Field(description="Examples that were removed from the window.")
    datasets: list[ErasedRows] = Field(default_factory=list, description="Datasets from which rows were removed.")
    respelled: list[int | str] = Field(default_factory=list, description=RESPELLED)
    not_found: list[int | str] = Field(description="Keys and tags that nothing that is stored contains.")
    receipt: Receipt


class ErasedIn(BaseModel):
    """A model or a feed from which an erasure has removed examples."""

    model: str
    kind: Literal["model", "feed"]
    version_after: int
    in_window: int


class EraseEverywhereAnswer(BaseModel):
    """The models and feeds from which an erasure has removed examples, and the receipt."""

    erased: list[ErasedIn]
    removed: int = Field(description="Examples that were removed from windows.")
    datasets: list[ErasedRows] = Field(default_factory=list, description="Datasets from which rows were removed.")
    respelled: list[int | str] = Field(default_factory=list, description=RESPELLED)
    not_found: list[int | str] = Field(description="Keys and tags that nothing that is stored contains.")
    receipt: Receipt


class ReceiptList(BaseModel):
    """All stored receipts, oldest first."""

    receipts: list[Receipt]


class PublicKeys(BaseModel):
    """The public keys that verify the receipts of this service."""

    public_key: str = Field(description="Ed25519, in hex; for new receipts.")
    earlier: list[str] = Field(description="For earlier receipts, oldest first.")


class Verification(BaseModel):
    """Whether a receipt is unchanged since a service signed it."""

    verified: bool
    is_own: bool = Field(description="Whether the key that signed it is this service's, or was.")
    reason: str | None = Field(description="What is wrong with it.")
    receipt: dict[str, Any] | None = Field(description="Its content, if it is verified.")
