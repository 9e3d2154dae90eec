"""F9, F10: whatever a spec, a file or a server says, what comes of it is right, or a sentence, in 5 s and 1 GiB."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.campaigns.drawing import DRAWS
from tests.campaigns.fuzz import campaign, corpus
from tests.campaigns.limited import SLOW, Limited
from tests.campaigns.sizes import examples
from tests.campaigns.targets import TARGETS

MANY = {"spec": 1000, "record": 150, "images": 150}
"""Cases in `make proof`; `OTHERS` where it says nothing."""
OTHERS = 300
SEED = 1


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    with Limited() as one:
        yield one


@pytest.mark.proof
def test_what_once_failed_does_not(limited: Limited) -> None:
    """Cases that campaigns kept, and others worth keeping."""
    tried = dict(corpus(limited))
    assert {name: fault for name, fault in tried.items() if fault is not None} == {}
    assert {name.split("/")[0] for name in tried} <= TARGETS.keys()


@pytest.mark.proof
@pytest.mark.parametrize("target", TARGETS)
def test_few_cases(target: str, limited: Limited) -> None:
    faults = [limited.fault(target, DRAWS[target](random.Random(seed))) for seed in range(8)]
    assert [one for one in faults if one is not None] == []


@pytest.mark.proof
@pytest.mark.timeout(0)
@pytest.mark.parametrize("target", TARGETS)
def test_many_cases(target: str, limited: Limited) -> None:
    count = examples(MANY.get(target, OTHERS))
    assert [(case[:200], fault) for case, fault in campaign(limited, target, count, SEED)] == []


@pytest.mark.proof
def test_a_crash_a_hang_and_a_glutton_are_told_and_the_next_case_is_tried() -> None:
    with Limited(most_s=0.2) as strict:
        for case, fault in ((b"raise", "ValueError"), (b"exit", "ends the process with code 3"), (b"spin", SLOW),
                            (b"eat", "MemoryError")):  # fmt: skip
            assert fault in str(strict.fault("misbehaves", case)), case
            assert strict.fault("misbehaves", b"nothing") is None
