"""What a granted bid holds: written by the thread that steps its candidate, read by any.

While its candidate is renewed in a cohort, the validity is the cohort's, one word for all of them. Who reads it looks
afterwards whether it was still this tenure's: a cohort may be renewed the moment after one of its members has ended.
"""

from typing import TYPE_CHECKING

from tenure.model import Grant

if TYPE_CHECKING:
    from tenure.core.cohort import AnyCohort
    from tenure.errors import Reason


class Held:
    """One office: the grant, up to when it may be believed in, and how close it came to its end."""

    __slots__ = ("_cohort", "_joined", "_margin_ns", "_until", "grant", "reason")

    def __init__(self, grant: Grant, valid_until: int) -> None:
        self.grant = grant
        self.reason: Reason | None = None  # why the body was told to stop; None while it was not
        self._until = valid_until
        self._margin_ns: int | None = None
        self._cohort: AnyCohort | None = None
        self._joined = 0  # after how many of its rounds

    @property
    def valid_until(self) -> int:
        """Up to when it may be believed in; 0 once it is over."""
        while (cohort := self._cohort) is not None:
            until = cohort.valid_until
            # It may have left, and even have come back: who comes is entitled to all that the cohort has had till then.
            if self._cohort is cohort:
                return until
        return self._until

    @valid_until.setter
    def valid_until(self, instant: int) -> None:
        assert self._cohort is None, "what a cohort believes in is not one member's to change"
        self._until = instant

    @property
    def margin_ns(self) -> int | None:
        """The least that was left of the validity when a renewal came; None: none has come yet."""
        while True:
            cohort, joined, least = self._cohort, self._joined, self._margin_ns
            if self._cohort is cohort:  # else these are of different times
                break
        if cohort is not None:
            together = cohort.least_margin_ns(joined)
            if least is None or (together is not None and together < least):
                return together
        return least

    def renewed(self, valid_until: int, now: int) -> None:
        """Note a renewal that was heard of at ``now``. A belief only grows by it: answers may come out of order."""
        margin_ns = max(0, self._until - now)
        self._margin_ns = margin_ns if self._margin_ns is None else min(self._margin_ns, margin_ns)
        self._until = max(self._until, valid_until)

    def join(self, cohort: "AnyCohort") -> bool:
        """Be renewed with a cohort, if it believes in the same instant."""
        if self._cohort is not None or self._until != cohort.valid_until:
            return False
        self._until = cohort.valid_until  # which is the same number, and one object for all of them
        self._joined = cohort.round_count
        self._cohort = cohort
        return True

    def leave(self) -> None:
        """Keep what the cohort has had up to now, and nothing that it will have."""
        self._until, self._margin_ns = self.valid_until, self.margin_ns
        self._cohort = None

    def forget(self) -> None:
        """Nothing is held in this process, which is the child of a fork."""
        self._cohort = None
        self._until = 0
