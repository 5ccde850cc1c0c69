"""The register of a store: one place for each holder in each election, whoever came first."""

from dataclasses import dataclass
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from tenure.model import Bid, Holder
from tenure.stores.register import Register

HOLDERS = [Holder("h", 1, nonce) for nonce in ("a", "b", "c")]


@dataclass(eq=False)
class Place:
    bid: Bid


def bid(election: str, holder: Holder, serial: int = 1) -> Bid:
    # Never the same object: a store hears of a bid again by another one that is equal.
    return Bid(election, Holder(holder.host, holder.pid, holder.nonce), serial, 10**9)


steps = st.lists(st.tuples(st.sampled_from("+-?"), st.sampled_from("xy"), st.sampled_from(HOLDERS)), max_size=40)


@given(steps)
def test_it_is_a_dictionary_of_both(taken: list[tuple[str, str, Holder]]) -> None:
    register, model, serials = Register[Place](), dict[tuple[str, Holder], Place](), count(1)
    gone: list[Place] = []
    for what, election, holder in taken:
        match what:
            case "+":
                place = Place(bid(election, holder, next(serials)))
                gone += filter(None, [model.get((election, holder))])
                model[election, holder] = place
                register.enter(place)
            case "-" if (election, holder) in model:
                place = model.pop((election, holder))
                assert register.forget(place)
                gone.append(place)
        for one in gone:  # Its holder may have another place by now, which is not taken from it.
            assert not register.forget(one)
        assert register.find(bid(election, holder)) is model.get((election, holder))
        assert len(register) == len(model)
        assert set(register) == set(model.values())
