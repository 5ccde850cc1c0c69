"""Logs of pauses are understood as programs write them, and what is not understood is named."""

import math

import pytest

from tenure.errors import ConfigError
from tenure.plan.pauselog import Kind, read

JVM = """
[2026-11-17T12:00:00.000+0000][info][gc] Using G1
[2026-11-17T12:00:01.000+0000][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms
[2026-11-17T12:00:02.000+0000][info][gc] GC(1) Concurrent Mark Cycle 12.345ms
[2026-11-17T12:01:41.000+0000][info][gc] GC(2) Pause Full (System.gc()) 40M->2M(256M) 812.1ms
"""
JVM_UPTIME = """
[0.010s][info][safepoint] Safepoint "G1CollectForAllocation", Time since last: 500 ns, Reaching safepoint: 90 ns, Cleanup: 10 ns, At safepoint: 900 ns, Total: 1000000 ns
[9.010s][info][gc] GC(1) Pause Remark 8M->8M(64M) 0.5ms
"""
JDK8 = """
2026-11-17T12:00:00.000+0000: 1.000: [GC (Allocation Failure) [PSYoungGen: 65536K->1000K(76288K)] 65536K->1008K(251392K), 0.0123 secs] [Times: user=0.01 sys=0.00, real=0.01 secs]
2026-11-17T12:00:10.000+0000: 11.000: Total time for which application threads were stopped: 0.2500000 seconds, Stopping threads took: 0.0000100 seconds
"""
GO = """
gc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, 0.21+0.88/0.52/0+0.85 ms cpu, 4->4->0 MB, 5 MB goal, 8 P
gc 2 @60.012s 2%: 0.5+0.39+2.5 ms clock, 0.21+0.88/0.52/0+0.85 ms cpu, 4->4->0 MB, 5 MB goal, 8 P
"""
PING = """
PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.
64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.345 ms
64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=12 ms
no answer yet for icmp_seq=3
--- 10.0.0.1 ping statistics ---
3 packets transmitted, 2 received, 33% packet loss, time 2003ms
rtt min/avg/max/mdev = 0.345/6.1/12/5.8 ms
"""


@pytest.mark.parametrize(
    ("text", "durations_s", "span_s"),
    [
        ("12ms\n0.4 s\n# a remark\n\n350us\n2\n", [0.00035, 0.012, 0.4, 2.0], None),
        ("2026-11-17T12:00:00Z 12ms\n2026-11-17T13:00:00Z, 5ms\n", [0.005, 0.012], 3600.0),
        ("1700000000.5 0.2\n1700000100.5 0.1s", [0.1, 0.2], 100.0),
        ("\ufeff7ms\r\n", [0.007], None),
        (JVM, [0.003456, 0.8121], 101.0),
        (JVM_UPTIME, [0.0005, 0.001], 9.0),
        (JDK8, [0.0123, 0.25], 10.0),
        (GO, [0.000026, 0.0001, 0.0005, 0.0025], 60.0),
    ],
    ids=["plain", "iso", "epoch", "windows", "jvm", "jvm uptime", "jdk 8", "go"],
)
def test_a_log_is_durations_and_the_time_over_which_they_came(
    text: str, durations_s: list[float], span_s: float | None
) -> None:
    log = read(text.splitlines(), "--pauses")
    assert log.durations_s == pytest.approx(durations_s)
    assert log.kind in {None, Kind.PAUSES}
    assert log.span_s == (None if span_s is None else pytest.approx(span_s))


def test_ping_is_known_for_what_it_is_and_a_lost_answer_is_never_there() -> None:
    log = read(PING.splitlines(), "--rtts")
    assert log.kind is Kind.TRIPS
    assert log.durations_s == pytest.approx([0.000345, 0.012, math.inf])


def test_bare_numbers_have_the_unit_that_was_said() -> None:
    assert read(["12", "3 s"], "--pauses", "ms").durations_s == pytest.approx([0.012, 3.0])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["12ms", "rubbish"], "--pauses, line 2 = rubbish: must be a duration"),
        (["-3ms"], "--pauses, line 1 = -3ms: must be a duration"),
        (["12 parsecs"], "--pauses, line 1 = 12 parsecs: must be"),
        (["nan"], "--pauses, line 1 = nan: must be"),
        (["1e99"], "--pauses, line 1 = 1e99: must be from 0 to 1e+06 s"),
        (["", "gc 1 @0.1s 2%: 1.2.3+0.1+0.1 ms clock"], "--pauses, line 2 = gc 1 @0.1s"),
        ([], "--pauses = nothing: must have at least one duration"),
        (["# nothing", ""], "--pauses = nothing"),
        (
            [*GO.splitlines(), *PING.splitlines()],
            "--pauses = pauses (line 2) and round trips (line 5): must be of one kind",
        ),
    ],
)
def test_rubbish_is_named_by_its_line(lines: list[str], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(lines, "--pauses")
    assert str(refused.value).startswith(told)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ConfigError, match="--unit = furlong: must be one of ns, us, ms, s, m"):
        read(["1"], "--pauses", "furlong")
