"""Elections and Leases: one for one, and by the same name wherever a Lease can have it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import Refused
from tenure.stores.kubernetes.names import check_name, election_of, lease_for

# As Kubernetes itself has it, for whatever is called by a subdomain of RFC 1123.
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
tricky = st.text(st.sampled_from("ax-./_ A2fé😀\udc80"), min_size=1, max_size=20)


@given(tricky | st.text(min_size=1).filter(lambda name: not re.search("[\ud800-\udc7f\udd00-\udfff]", name)))
def test_every_name_becomes_that_of_a_lease_and_comes_back(name: str) -> None:
    lease = lease_for(name)
    assert SUBDOMAIN.fullmatch(lease)
    assert election_of(lease) == name


@given(st.from_regex(SUBDOMAIN, fullmatch=True))
def test_a_lease_is_of_at_most_one_election_and_by_its_own_name_if_that_has_no_mark(lease: str) -> None:
    election = election_of(lease)
    assert election is None or lease_for(election) == lease
    assert "x--" in lease or election == lease


@pytest.mark.parametrize(
    ("election", "lease"),
    [
        ("billing", "billing"),
        ("billing.close-2", "billing.close-2"),
        ("billing/close", "billingx--2fclose"),
        ("Billing_Close", "x--42illingx--5fx--43lose"),
        ("-a.", "x--2dax--2e"),
        ("ax--2f", "ax--78--2f"),
    ],
)
def test_names_are_spelled_as_the_page_says(election: str, lease: str) -> None:
    assert lease_for(election) == lease


def test_a_name_that_is_too_long_is_refused_with_its_length_and_the_limit() -> None:
    assert check_name("kubernetes://x", "claim", "a" * 253) == "a" * 253
    for name, length in (("a" * 254, 254), ("/" * 60, 300)):
        with pytest.raises(Refused, match=f"has {length} characters .* 253 are allowed: use a shorter one"):
            check_name("kubernetes://x", "claim", name)
    with pytest.raises(Refused, match="needs a name"):
        check_name("kubernetes://x", "claim", "")
