"""What was erased, and how that is proved."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from livesvm.service.api.answers.certificates import Certificate


class ErasedKeys(BaseModel):
    """Which keys, to whoever knows them; of a feed the times of its readings."""

    count: int
    in_window: int = Field(description="How many examples of the window these were.")
    hash: str
    salt: str
    hashes: list[str]


class FeedProof(BaseModel):
    """Proof of optimality of all models of a feed: the worst of each."""

    version: int
    relative_gap: float
    max_violation: float
    n_examples: int


class Receipt(BaseModel):
    """What was erased, where, when and for whom; signed by the service's own key."""

    receipt: str
    model: str = Field(description="Its id, or that of the feed.")
    kind: Literal["model", "feed"]
    asked_at: datetime
    asked_by: str | None = Field(description="Label of the API key.")
    erased_at: datetime
    kept_until: datetime
    version_before: int
    version_after: int
    keys: ErasedKeys
    certificate: Certificate | FeedProof | None = Field(description="Of the optimum without them.")
    places: dict[str, str] = Field(description="What was searched and rewritten, and what was not.")
    public_key: str
    signature: str = Field(description="Ed25519, of the rest as JSON without spaces.")


class EraseAnswer(BaseModel):
    """The version that never knew them."""

    version: int
    removed: int
    receipt: Receipt


class ReceiptList(BaseModel):
    """Every receipt that is kept, oldest first."""

    receipts: list[Receipt]


class PublicKeys(BaseModel):
    """What receipts of this service are verified by."""

    public_key: str = Field(description="Ed25519, in hex; of receipts to come.")
    earlier: list[str] = Field(description="Of receipts of before, oldest first.")


class Verification(BaseModel):
    """Whether a receipt is as a service signed it."""

    verified: bool
    is_own: bool = Field(description="Whether the key that signed it is this service's, or was.")
    reason: str | None = Field(description="What is wrong with it.")
    receipt: dict[str, Any] | None = Field(description="What it says, once that is known to be what was signed.")
