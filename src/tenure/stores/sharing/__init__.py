"""Many elections on a few leases: what is alike in stores whose engine would not bear a lease for each of them."""
