"""The sidecar, ``tenure serve``: elections over HTTP, for load balancers, for programs in any language, and for people.

Starlette and uvicorn come with the extra ``serve``. Nothing below this layer knows of it.
"""
