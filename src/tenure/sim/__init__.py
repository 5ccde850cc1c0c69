"""The simulator: the shipped machine under every fault, in virtual time, from one seed."""
