"""Everything that can be asked of a sidecar: the one table of routes."""

from dataclasses import replace
from typing import Final

from tenure.serve import asking, probing, showing, standing, streaming
from tenure.serve.candidacy import KEEP_MAX_S, KEEP_MIN_S, State
from tenure.serve.fields import Field
from tenure.serve.routes import STREAM, Access, Route, Table

WAIT_MAX_S: Final = 300.0
_NAME_MAX: Final = 255

_WAIT: Final = Field("wait_s", "number", "How long to wait for an answer, at the most.", least=0, most=WAIT_MAX_S)
_TTL: Final = Field("ttl_s", "number", "How long the lease lasts unrenewed.", least=0.001, most=604800)
_KEEP: Final = Field(
    "keep_s",
    "number",
    "How long the office is held for a client that is not heard of.",
    least=KEEP_MIN_S,
    most=KEEP_MAX_S,
)
_ADVERTISE: Final = Field("advertise", "string", "Where the leader can be reached, for others to read.", most=1024)
_WHILE: Final = Field(
    "while", "string", "Wait while the state is this one.", choices=tuple(state.value for state in State)
)
_OF: Final = Field("election", "string", "Only events of this election; again for more.", most=_NAME_MAX, many=True)
_SINCE: Final = Field("last_event_id", "string", "The event after which to begin, as Last-Event-ID.", most=64)
_LIMIT: Final = Field("limit", "integer", "How many tenures, the newest.", least=1, most=1000)
_ELECTION: Final = Field("election", "string", "Its name.", required=True, least=1, most=_NAME_MAX)
_TOKEN: Final = Field("token", "integer", "The token in question.", required=True, least=1, most=2**63 - 1)
_MEANT: Final = replace(_TOKEN, about="The tenure that is meant: its token. Not given: whoever leads.", required=False)

_PROBE: Final = {200: "Yes.", 503: "No."}
_GONE: Final = {404: "There is no such candidacy, or there was one over a minute ago."}
_STORE: Final = {503: "The store could not be asked."}

ROUTES: Final = (
    Route(
        "GET",
        "/leader/{election+}",
        "leader",
        "Whether this sidecar holds the office at this instant. Never asks the engine.",
        probing.leader,
        Access.PROBE,
        answers={200: "It does.", 503: "It does not. `Tenure-Leader` says where the leader is, as last seen."},
    ),
    Route(
        "GET",
        "/standby/{election+}",
        "standby",
        "Whether this sidecar stands by: it stands, and does not hold the office.",
        probing.standby,
        Access.PROBE,
        answers=_PROBE,
    ),
    Route("GET", "/health", "health", "Whether this process answers.", probing.health, Access.PROBE),
    Route(
        "GET", "/ready", "ready", "Whether the store has answered lately.", probing.ready, Access.PROBE, answers=_PROBE
    ),
    Route(
        "POST",
        "/v1/elections/{election+}/candidacies",
        "stand",
        "Stand for election. The answer is how it stands with this candidacy, which is one tenure at the most.",
        standing.stand,
        Access.TOKEN,
        body=(_TTL, _KEEP, _ADVERTISE),
        answers={201: "This candidate stands."},
    ),
    Route(
        "GET",
        "/v1/candidacies/{id}",
        "look",
        "How it stands with a candidacy or a lock: at once, or with wait_s when that has changed, or after half of keep_s.",
        standing.look,
        Access.TOKEN,
        query=(_WAIT, _WHILE),
        answers={200: "How it stands.", **_GONE},
    ),
    Route(
        "POST",
        "/v1/candidacies/{id}/heartbeat",
        "heartbeat",
        "Say that the client is there, and learn how long it may believe that it leads.",
        standing.heartbeat,
        Access.TOKEN,
        body=(),
        answers={200: "How it stands.", **_GONE},
    ),
    Route(
        "GET",
        "/v1/candidacies/{id}/stream",
        "stream",
        "How it stands, as events `state`, for as long as the connection is open. Closing it ends the candidacy.",
        standing.stream,
        Access.TOKEN,
        answers={200: "Events.", **_GONE},
        kind=STREAM,
    ),
    Route(
        "DELETE",
        "/v1/candidacies/{id}",
        "resign",
        "Resign. The answer comes when the office was released.",
        standing.resign,
        Access.TOKEN,
        answers={200: "How it ended.", **_GONE},
    ),
    Route(
        "POST",
        "/v1/locks/{lock+}",
        "lock",
        "Take a lock, within wait_s. It is looked at, kept and streamed as a candidacy is.",
        standing.lock,
        Access.TOKEN,
        body=(_WAIT, _TTL, _KEEP),
        answers={200: "It is held for this client.", 423: "Others hold it.", **_STORE},
    ),
    Route(
        "DELETE",
        "/v1/locks/{lock}",
        "unlock",
        "Give a lock back. The answer comes when it is free.",
        standing.unlock,
        Access.TOKEN,
        answers={200: "How it ended.", **_GONE},
    ),
    Route("GET", "/v1/elections", "elections", "Every election, as last seen.", asking.elections),
    Route("GET", "/v1/elections/{election+}", "election", "One election, as last seen.", asking.election),
    Route(
        "GET",
        "/v1/elections/{election+}/history",
        "history",
        "The tenures of an election that are on record, the first first.",
        asking.history,
        query=(_LIMIT,),
        answers={200: "What is on record.", **_STORE},
    ),
    Route(
        "POST",
        "/v1/elections/{election+}/resign",
        "ask_to_resign",
        "Ask the leader to leave office. A request: nothing is taken away, and it may stand again.",
        asking.resign,
        Access.TOKEN,
        body=(_MEANT, _WAIT),
        answers={
            200: "Whom it was left for, and whether it has left.",
            409: "The tenure that is meant is over.",
            501: "The store cannot pass it on.",
            **_STORE,
        },
    ),
    Route(
        "POST",
        "/v1/check",
        "check",
        "Whether the store says that a token is the incumbent's. Asks the engine.",
        asking.check,
        body=(_ELECTION, _TOKEN),
        answers={200: "Its word.", **_STORE},
    ),
    Route(
        "GET",
        "/v1/events",
        "events",
        "What happens, as events: `fact`, `board`, and `missed` if some that were asked for are gone.",
        streaming.events,
        query=(_OF, _SINCE),
        answers={200: "Events."},
        kind=STREAM,
    ),
    Route("GET", "/v1/board", "board", "All that the page shows.", showing.board),
    Route("GET", "/metrics", "metrics", "Metrics for Prometheus.", showing.metrics, kind="text/plain"),
    Route("GET", "/openapi.json", "document", "This document.", showing.document),
    Route("GET", "/", "page", "The page, for people.", showing.page, kind="text/html"),
    Route("GET", "/assets/{name}", "file", "A file of the page.", showing.file, kind="text/css"),
)

TABLE: Final = Table(ROUTES)
