"""What became of a request that has no answer. An answer is an answer, whatever its status."""


class NotSent(Exception):
    """Nobody has seen the request. ``why`` says in a few words what to do about it."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Lost(Exception):
    """The request left, and no answer came."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class Silent(Lost):
    """The connection stood and nothing broke, but no answer came in time."""
