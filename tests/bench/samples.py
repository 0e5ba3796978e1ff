"""Whether two samples of latencies are one.

Owns: what is done to latencies before they are compared, the comparison, and its bar.
Never: knows what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, quantiles, variance
from typing import Final

SAME: Final = 4.5  # |t| below it: the bar of leakage tests (ISO/IEC 17825; Reparaz et al., dudect)
KEPT: Final = 95  # % of the latencies; the rest is what the machine did meanwhile
BLOCK: Final = 50  # pairs


@dataclass(frozen=True, slots=True)
class Compared:
    """Two samples, one less the other. All but `medians` is of what is left once the slowest of both together are cut."""

    t: float  # Welch's
    medians: float  # µs
    means: float  # µs
    deviation: float  # within a sample, µs
    cut: tuple[float, float]  # the share of each sample that was

    @property
    def same(self) -> bool:
        return abs(self.t) < SAME


def levelled(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Latencies less what was usual at that moment: the median of the BLOCK pairs asked together, both kinds alike.

    A shared machine takes twice as long for seconds at a time. That hits both kinds, and would hide what does not.
    """
    quiet = []
    for start in range(0, len(pairs), BLOCK):
        block = pairs[start : start + BLOCK]
        usual = round(median(ns for pair in block for ns in pair))
        quiet += [(first - usual, second - usual) for first, second in block]
    return quiet


def compare(one: Sequence[int], other: Sequence[int]) -> Compared:
    """Two samples of nanoseconds, the upper 5 % cut.

    Both are cut at one bound, the 95th percentile of all together: with bounds of their own, chance in the tail
    would move the means by more than the variance of what is left admits.
    """
    bound = quantiles([*one, *other], n=100)[KEPT - 1]
    a, b = ([ns for ns in sample if ns <= bound] for sample in (one, other))
    return Compared(
        welch(a, b),
        round((median(one) - median(other)) / 1e3, 2),
        round((fmean(a) - fmean(b)) / 1e3, 2),
        round(sqrt((variance(a) + variance(b)) / 2) / 1e3, 1),
        (round(1 - len(a) / len(one), 4), round(1 - len(b) / len(other), 4)),
    )


def welch(one: Sequence[int], other: Sequence[int]) -> float:
    """Welch's t: the difference of the means over its standard error."""
    error = sqrt(sum(variance(sample) / len(sample) for sample in (one, other)))
    return round((fmean(one) - fmean(other)) / error, 2)
