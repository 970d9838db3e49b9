"""Values that the Redis store seals with a checksum: requests, answers, aborted records, solutions and documents.

request   seal of 32 bytes, then "sequence:body"
answer    seal of 32 bytes, then the answer
mark      "sequence:seal", in hexadecimal
solution  seal of 32 bytes, then "sequence:data"
document  seal of 32 bytes, then the data
"""

from __future__ import annotations

from collections.abc import Iterable

from livesvm.service.store.base import DocumentName, Solution, StoreDamaged
from livesvm.service.store.seals import SEAL_BYTES, answer_seal, document_seal, mark_seal, request_seal, solution_seal

LONGEST = 20  #: digits of a sequence number


def sealed_request(model: str, key: str, sequence: int, body: bytes) -> bytes:
    """Return the value that Redis stores for a request: a seal, then the record's number and the body."""
    return request_seal(model, key, sequence, body) + b"%d:" % sequence + body


def sealed_answer(model: str, key: str, answer: bytes) -> bytes:
    """Return the value that Redis stores for the answer to a request: a seal, then the answer."""
    return answer_seal(model, key, answer) + answer


def sealed_mark(model: str, sequence: int) -> str:
    """Return the mark that Redis stores for an aborted record: the record's number and a seal."""
    return f"{sequence}:{mark_seal(model, sequence)}"


def sealed_solution(model: str, solution: Solution) -> bytes:
    """Return the value that Redis stores for a solution: a seal, then the record's number and the data."""
    return solution_seal(model, solution.sequence, solution.data) + b"%d:" % solution.sequence + solution.data


def open_solution(model: str, value: bytes) -> Solution:
    """Return the solution in a sealed value; raises StoreDamaged if the seal does not match."""
    found = Solution(*_numbered(value[SEAL_BYTES:]))
    if value != sealed_solution(model, found):
        raise StoreDamaged(f"the solution of model {model} does not match its checksum")
    return found


def sealed_document(at: DocumentName, data: bytes) -> bytes:
    """Return the value that Redis stores for a document: a seal, then the data."""
    return document_seal(*at, data) + data


def open_document(at: DocumentName, value: bytes) -> bytes:
    """Return the document in a sealed value; raises StoreDamaged if the seal does not match."""
    data = value[SEAL_BYTES:]
    if value != sealed_document(at, data):
        raise StoreDamaged(f"{at.kind} {at.name} does not match its checksum")
    return data


def open_request(model: str, key: str, value: bytes) -> tuple[int, bytes]:
    """Return the sequence number and the body of a request in a sealed value; raises StoreDamaged."""
    if not _is_sealed(model, key, value):
        raise StoreDamaged(f"what is remembered of request {key!r} of model {model} does not match its checksum")
    return _numbered(value[SEAL_BYTES:])


def open_answer(model: str, key: str, value: bytes) -> bytes:
    """Return the answer in a sealed value; raises StoreDamaged if the seal does not match."""
    answer = value[SEAL_BYTES:]
    if value[:SEAL_BYTES] != answer_seal(model, key, answer):
        raise StoreDamaged(f"the answer to request {key!r} of model {model} does not match its checksum")
    return answer


def open_marks(model: str, marks: Iterable[bytes]) -> frozenset[int]:
    """Return the numbers of aborted records from their marks; raises StoreDamaged if a seal does not match."""
    found = []
    for mark in marks:
        sequence, _ = _numbered(mark)
        if mark != sealed_mark(model, sequence).encode():
            raise StoreDamaged(f"a mark of an aborted record of model {model} does not match its checksum")
        found.append(sequence)
    return frozenset(found)


def _is_sealed(model: str, key: str, value: bytes) -> bool:
    return value[:SEAL_BYTES] == request_seal(model, key, *_numbered(value[SEAL_BYTES:]))


def _numbered(value: bytes) -> tuple[int, bytes]:
    """Split the bytes ``number:body`` into the number, -1 if it is damaged, and the body."""
    digits, _, body = value.partition(b":")
    return int(digits) if digits.isdigit() and len(digits) <= LONGEST else -1, body
