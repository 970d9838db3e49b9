"""Records of numbers: what Python gives them, what compiled code makes of them, what Python gets back."""

import struct

import pytest

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.scalars import One, Scalars


class Account(Scalars):
    """One with both kinds of numbers."""

    balance: float
    payments: int
    rate: float


@compiled
def pay(accounts: One[Account], amount: float) -> None:
    """Add to it."""
    at = accounts[0]
    at.balance += amount
    at.payments += 1


def test_what_is_not_given_is_zero() -> None:
    snapshot = Account.snapshot(Account.of(2.5))
    assert (snapshot.balance, snapshot.payments, snapshot.rate) == (2.5, 0, 0.0)


def test_python_and_compiled_code_share_the_record() -> None:
    account = Account.of(1.0, 3)
    pay(account, 0.5)
    account[0].rate = 0.25
    snapshot = Account.snapshot(account)
    pay(account, 1.0)
    assert (snapshot.balance, snapshot.payments, snapshot.rate) == (1.5, 4, 0.25)
    assert (account[0].balance, account[0].payments) == (2.5, 5)


def test_a_number_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(struct.error):
        Account.of(1.0, 0.5)
    with pytest.raises(struct.error):
        Account.of(1.0, 1, 1.0, 1.0)
