"""The ledger of the demo: invoices are paid one after the other, and the total is kept beside the payments.

Whoever pays reads the ledger into memory, computes the next payment there, and writes it: read, think, write. That is
right for one writer. A second one that woke up with an old reading in its memory pays an invoice twice.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenure.sinks import Bound

AMOUNT = 100
_CREATE = """
CREATE TABLE payment (position INTEGER PRIMARY KEY, invoice INTEGER, amount INTEGER, paid_by TEXT, token INTEGER);
CREATE TABLE account (total INTEGER);
INSERT INTO account VALUES (0);
"""


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment as its payer computed it: what to pay, and what the total is to be after it."""

    invoice: int
    total: int


@dataclass(frozen=True, slots=True)
class Books:
    """All that the ledger holds: each payment in the order of writing (invoice, who paid, token), and the total."""

    payments: list[tuple[int, str, int]]
    total: int

    def faults(self) -> list[str]:
        """Return what is wrong with the books, as any auditor could see it. Tokens do not enter."""
        times = Counter(invoice for invoice, _, _ in self.payments)
        faults = [f"invoice {invoice} is paid {count} times" for invoice, count in sorted(times.items()) if count > 1]
        paid = AMOUNT * len(self.payments)
        if self.total != paid:
            faults.append(f"the total says {self.total}, the payments sum to {paid}")
        return faults


class Unfenced:
    """The same file without the fence: a plain transaction, which asks nobody for a token."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def transaction(self, _: Bound) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")


def create(path: Path) -> None:
    """Make an empty ledger."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_CREATE)


def next_payment(path: Path) -> Payment:
    """Read the ledger into memory, and return the payment that should come next."""
    # Closed at once: a candidate that is frozen must not hold a lock that everybody else would wait for.
    with closing(sqlite3.connect(path)) as connection:
        invoice, total = connection.execute(
            "SELECT coalesce(max(invoice), 0) + 1, (SELECT total FROM account) FROM payment"
        ).fetchone()
    return Payment(invoice, total + AMOUNT)


def write(connection: sqlite3.Connection, payment: Payment, paid_by: str, token: int) -> None:
    """Write a payment within a transaction of the caller's. The same statements with the fence and without."""
    connection.execute(
        "INSERT INTO payment (invoice, amount, paid_by, token) VALUES (?, ?, ?, ?)",
        (payment.invoice, AMOUNT, paid_by, token),
    )
    connection.execute("UPDATE account SET total = ?", (payment.total,))


def read(path: Path) -> Books:
    """Return what the file holds, whatever anybody says that they wrote."""
    with closing(sqlite3.connect(path)) as connection:
        payments = connection.execute("SELECT invoice, paid_by, token FROM payment ORDER BY position").fetchall()
        ((total,),) = connection.execute("SELECT total FROM account").fetchall()
    return Books(payments, total)
