"""What elections on PostgreSQL cost: beside the guarded statements that must be sent anyway, and beside an advisory lock."""

from rows import Figures, NotMeasured
from sql_sides import hand_overs_s, pairs_s

from tenure.testing.engines import MissingEngine, PostgresCluster


def figures() -> Figures:
    try:
        with PostgresCluster() as cluster:
            took_s = pairs_s(cluster, "postgresql")
            what = "the guarded UPDATE pair raw on asyncpg"
            yield f"PostgreSQL: claim + release / {what}", took_s["store"] / took_s["raw"], 1.5, "x", False
            yield f"PostgreSQL: tenure.Lock / {what}", took_s["lock"] / took_s["raw"], 3.0, "x", False
            handed_s = hand_overs_s(cluster, "postgresql")
            yield "PostgreSQL: hand-over between two processes, p50", handed_s["ours"] * 1e3, 5.0, "ms", False
            # The floor, and no goal of ours: such a lock has no ttl and no token.
            yield "PostgreSQL: the same with a blocked advisory lock, p50", handed_s["blocked"] * 1e3, 5.0, "ms", False
    except MissingEngine as missing:
        yield NotMeasured("PostgreSQL: every figure of elections", str(missing))
