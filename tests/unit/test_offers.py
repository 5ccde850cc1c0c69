"""Whether a store offers more than the five methods is asked of each store once, and never of its class."""

from typing import Any

from tenure.stores.base import CanAskToResign, CanProclaim, offers
from tenure.stores.memory import MemoryStore


class Wrapped:
    """Offers what it wraps."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Slotted(Wrapped):
    """Cannot be referred to weakly, nor be a key."""

    __slots__ = ("_inner",)
    __hash__ = None  # type: ignore[assignment]


class AsksToResign:
    """One that can leave a word."""

    async def ask_to_resign(self, election: str) -> None:
        raise NotImplementedError

    def resign_asked(self, grant: object) -> bool:
        raise NotImplementedError


def test_it_says_what_isinstance_says_the_second_time_as_well() -> None:
    for store in (MemoryStore(), AsksToResign(), Wrapped(AsksToResign()), Wrapped(object()), Slotted(AsksToResign())):
        for protocol in (CanAskToResign, CanProclaim):
            assert [offers(store, protocol) for _ in range(2)] == [isinstance(store, protocol)] * 2


def test_two_of_one_class_may_offer_different_things() -> None:
    assert offers(Wrapped(AsksToResign()), CanAskToResign)
    assert not offers(Wrapped(object()), CanAskToResign)
