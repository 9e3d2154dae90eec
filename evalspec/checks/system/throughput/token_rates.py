"""Tokens a second at each batch size, of models that stream their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.stats.timing.inverse import Inverse
from evalspec.stats.timing.processes import PairedTiming, over_processes, paired_log_ratio
from evalspec.timing import saturated_server, streams
from evalspec.timing.budget import OUTPUT_RATE, PREFILL_RATE, TOKEN_RATES
from evalspec.timing.token_rates import rate_of

if TYPE_CHECKING:
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Samples


@dataclass(frozen=True)
class TokenRates:
    """Rates of one metric.

    Args:
        sizes: By batch size; empty: there are none.
        why_not: Why there are none; empty where there are some.
        invalid: Why they are void, or None.
    """

    sizes: Mapping[int, Estimate]
    why_not: str
    invalid: str | None


def token_rates(batches: Mapping[int, Sequence[Samples]]) -> dict[str, TokenRates]:
    """Each metric of tokens a second, one number from each process; t over the processes.

    Args:
        batches: Samples by batch size.
    """
    invalid = streams.miscounted([one for samples in batches.values() for one in samples])
    found = {}
    for name in TOKEN_RATES:
        rates = {size: [rate_of(one, name) for one in samples] for size, samples in batches.items()}
        known = {size: each for size in rates if (each := numbers(rates[size])) is not None}
        why_not = next((one for each in rates.values() for one in each if isinstance(one, str)), "nothing was measured")
        sizes: dict[int, Estimate] = {}
        for size, values in known.items():
            mean: Estimate = over_processes(values, least=0.0)
            if name == PREFILL_RATE:
                # One over a slope is too large on average, a slope is not.
                mean = Inverse(over_processes([1000.0 / rate for rate in values], least=0.0, skewed=True))
            limited = name == OUTPUT_RATE and saturated_server.is_bottleneck(batches[size])
            sizes[size] = saturated_server.AtLeast(mean) if limited else mean
        found[name] = TokenRates(sizes, "" if sizes else why_not, invalid)
    return found


def numbers(rates: Sequence[float | str]) -> list[float] | None:
    """Rates of all processes; None where one has none."""
    known = [one for one in rates if not isinstance(one, str)]
    return known if known and len(known) == len(rates) else None


def pair_of(name: str, ours: Sequence[Samples], theirs: Sequence[Samples]) -> PairedTiming | None:
    """A metric of both models in pairs of processes; None where a side has none."""
    sides = [numbers([rate_of(one, name) for one in side]) for side in (ours, theirs)]
    return None if sides[0] is None or sides[1] is None else paired_log_ratio(sides[0], sides[1])
