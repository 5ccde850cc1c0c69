"""What is a candidate's key in etcd, and whose: every key belongs to one election at most."""

from hypothesis import given
from hypothesis import strategies as st

from tenure.clients.etcd.messages import KeyValue
from tenure.stores.etcd.layout import Names, split

PARTS = st.text(st.characters(codec="utf-8", exclude_characters="/", exclude_categories=("C", "Z")), min_size=1)
# Parts that could be lease ids are what could be mistaken for candidates.
NAMES = st.lists(st.one_of(PARTS, st.integers(1, 2**63 - 1).map(lambda number: f"{number:x}")), min_size=1, max_size=4)
LEASES = st.integers(1, 2**63 - 1)
NAMESPACES = st.sampled_from(["", "prod/", "a/b/"])


@given(NAMESPACES, NAMES, LEASES)
def test_the_key_of_a_candidate_is_its_elections_and_is_split_into_the_same_name(
    namespace: str, parts: list[str], lease: int
) -> None:
    name = "/".join(parts)
    names = Names.of(namespace, name)
    key = names.key(lease)
    assert names.has(key)
    assert names.prefix <= key < names.end
    assert split(key, lease) == f"{namespace}{name}".encode()


@given(NAMES, NAMES, LEASES)
def test_the_key_of_a_candidate_is_of_no_other_election(parts: list[str], others: list[str], lease: int) -> None:
    name, other = "/".join(parts), "/".join(others)
    key = Names.of("", name).key(lease)
    assert Names.of("", other).has(key) == (name == other)
    # Least of all of one that goes on where the name ends, or ends where it goes on.
    assert not Names.of("", f"{name}/{other}").has(key)
    assert not Names.of("", name).has(Names.of("", f"{name}/{other}").key(lease))


@given(st.binary(), LEASES)
def test_a_key_that_says_another_lease_than_it_has_belongs_to_no_election(key: bytes, lease: int) -> None:
    name = split(key, lease)
    assert name is None or key == name + b"/%x" % lease
    assert split(key, 0) is None


@given(st.binary(), st.binary(), LEASES)
def test_no_text_of_a_stranger_keeps_it_from_being_shown(tail: bytes, value: bytes, lease: int) -> None:
    names = Names.of("", "x")
    kv = KeyValue(names.prefix + tail, value, 7, 7, 1, lease)
    incumbent = names.incumbent(kv)
    assert incumbent.token == 7
    assert str(incumbent.holder).isprintable()
    assert names.candidates([kv]) == ([kv] if names.has(kv.key) else [])
