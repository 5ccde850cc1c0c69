"""Who led when: records, what follows from them, who writes them, and how people see them."""
