"""Any bytes, anywhere: what comes of them is right, or a sentence says what is wrong, in 5 s and 1 GiB.

By hand: ``python -m tests.campaigns.fuzz spec --count 100000 --seed 1``. What fails is kept in ``tests/corpus/TARGET``,
and from then on every run of the tests tries it.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.campaigns.drawing import DRAWS
from tests.campaigns.limited import Limited
from tests.campaigns.targets import TARGETS

CORPUS = Path(__file__).parents[1] / "corpus"


def campaign(limited: Limited, target: str, count: int, seed: int) -> Iterator[tuple[bytes, str]]:
    """Cases that fail, of so many, and how.

    Args:
        limited: Tries them.
        target: Name of what is fuzzed.
        count: Cases.
        seed: Of the first one; each has a seed of its own.
    """
    for own in range(seed * 10**7, seed * 10**7 + count):
        case = DRAWS[target](random.Random(own))
        fault = limited.fault(target, case)
        if fault is not None:
            yield case, fault


def corpus(limited: Limited) -> Iterator[tuple[str, str | None]]:
    """Cases that are kept, and how each fails now; None: it does not."""
    for path in sorted(CORPUS.glob("*/*")):
        yield f"{path.parent.name}/{path.name}", limited.fault(path.parent.name, path.read_bytes())


def keep(target: str, case: bytes) -> Path:
    """Keep a case, under a name made of its content."""
    path = CORPUS / target / hashlib.sha256(case).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(case)
    return path


def main() -> int:
    """A campaign by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="+", choices=sorted(TARGETS))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for target in options.targets:
        wrong = 0
        with Limited() as limited:
            for case, fault in campaign(limited, target, options.count, options.seed):
                wrong += 1
                sys.stdout.write(f"{target}: {keep(target, case)}: {fault.strip()}\n")
                sys.stdout.flush()
        failed += wrong
        sys.stdout.write(f"{target}: {options.count} cases of seed {options.seed}, {wrong} wrong\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
