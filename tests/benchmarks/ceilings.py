"""Ceilings of the roofline beside torch's own benchmark on the same device, A B A B in one run.

    python tests/benchmarks/ceilings.py [--rounds 5] [--device cpu] [--threads 1] [--precisions fp32 bf16]

Peer: `torch.utils.benchmark.Timer.blocked_autorange` on the same products and the same copy, the best over the same
sizes. Prints for each ceiling the best of all rounds of both, and their ratio; then that of each round.
"""

from __future__ import annotations

import argparse
import statistics

import torch
from torch.utils.benchmark import Timer

from evalspec.measure.ceilings import GPU_SIZES, HOST_SIZES, copy_ceiling, gemm_ceiling
from evalspec.measure.engines import TORCH_TYPES, Engine, engine_for

LEAST_S = 0.2
LONGEST_S = 0.1


def best_rate(statement: str, names: dict[str, object], threads: int, work: float) -> float:
    """Work a second in the best block of torch's benchmark."""
    measured = Timer(statement, globals=names, num_threads=threads).blocked_autorange(min_run_time=LEAST_S)
    return work / min(measured.times)


def torch_gemm(device: str, precision: str, threads: int) -> float:
    """The best of torch's benchmark over the sizes that ours goes through."""
    rates = []
    for n in HOST_SIZES if device == "cpu" else GPU_SIZES:
        if precision == "int8":
            a = torch.ones((n, n), dtype=torch.int8, device=device)
            names: dict[str, object] = {"torch": torch, "a": a, "b": a.t()}
            rates.append(best_rate("torch._int_mm(a, b)", names, threads, 2.0 * n**3))
        else:
            kind = getattr(torch, TORCH_TYPES[precision])
            a, b, out = (torch.ones((n, n), dtype=kind, device=device) for _ in range(3))
            names = {"torch": torch, "a": a, "b": b, "out": out}
            rates.append(best_rate("torch.mm(a, b, out=out)", names, threads, 2.0 * n**3))
        if 8 * 2.0 * n**3 / rates[-1] > LONGEST_S:
            break
    return max(rates)


def torch_copy(device: str, engine: Engine, threads: int) -> float:
    """The best of torch's benchmark for a copy from memory."""
    source = torch.ones(engine.cache_bytes, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return best_rate("b.copy_(a)", {"a": source, "b": target}, threads, 2.0 * source.nbytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16", "int8"])
    options = parser.parse_args()
    engine = engine_for(options.device, options.threads)
    print(f"{engine.name}, {options.threads} threads, last cache {engine.cache_bytes / 2**20:.0f} MiB")
    for what in (*options.precisions, "copy"):
        ours, theirs = [], []
        for _ in range(options.rounds):
            if what == "copy":
                ours.append(copy_ceiling(engine).best)
                theirs.append(torch_copy(options.device, engine, options.threads))
                continue
            ceiling = gemm_ceiling(engine, what)
            if ceiling is None:
                break
            ours.append(ceiling.best)
            theirs.append(torch_gemm(options.device, what, options.threads))
        if not ours:
            print(f"{what}: no such product on this device")
            continue
        unit = "GB/s" if what == "copy" else "GFLOP/s"
        each = [a / b for a, b in zip(ours, theirs, strict=True)]
        print(
            f"{what}: ours {max(ours) / 1e9:.1f} {unit}, torch.utils.benchmark {max(theirs) / 1e9:.1f} {unit}, "
            f"ratio of the best {max(ours) / max(theirs):.3f}; by round "
            f"{', '.join(f'{one:.3f}' for one in each)} (median {statistics.median(each):.3f})"
        )


if __name__ == "__main__":
    main()
