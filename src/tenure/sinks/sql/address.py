"""How a sink is called in errors and logs: by the address of its server, without whatever may be secret."""


def address_of(kind: str, url: str) -> str:
    """Return a name for what a URL, or a DSN of any other form, leads to."""
    scheme, mark, rest = url.partition("://")
    if not mark or not scheme.isidentifier():
        return f"{kind} sink"
    # A password may hold anything, and goes on to the last @ before the host.
    return f"{kind} sink {rest.partition('?')[0].rpartition('@')[2]}"
