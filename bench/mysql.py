"""What elections on MySQL cost, measured on MariaDB: beside the guarded statements that must be sent anyway, and GET_LOCK."""

from rows import Figures, NotMeasured
from sql_sides import hand_overs_s, pairs_s

from tenure.stores.mysql.settings import settings_of
from tenure.testing.engines import MariaDbCluster, MissingEngine


def figures() -> Figures:
    try:
        with MariaDbCluster() as cluster:
            took_s = pairs_s(cluster, "mysql")
            # Four statements for two: a claim reads the row, counts a token and takes the row. MySQL has no UPDATE that returns one.
            what = "the guarded UPDATE pair raw on asyncmy"
            yield f"MySQL: claim + release / {what}", took_s["store"] / took_s["raw"], 3.0, "x", False
            handed_s = hand_overs_s(cluster, "mysql")
            poll_s = settings_of(cluster.url).sql.poll_s
            yield (
                "MySQL: hand-over between two processes, p50 / poll interval",
                handed_s["ours"] / poll_s,
                1.0,
                "x",
                False,
            )
            yield "MySQL: the same with a blocked GET_LOCK, p50", handed_s["blocked"] * 1e3, 5.0, "ms", False
    except MissingEngine as missing:
        yield NotMeasured("MySQL: every figure of elections", str(missing))
