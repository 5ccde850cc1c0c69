"""What users test with: the store contract, the virtual clock, the script runner."""
