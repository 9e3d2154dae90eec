"""Makes the files of ``suites/text``.

    python suites/text/make_text.py [--output DIR]
    python suites/text/make_text.py --check

Messages to a shop, put together from parts that this file holds, with a seed: nobody wrote them, and nobody is in them.
The data are the same bytes everywhere for the same versions of numpy and pyarrow; the model is the same bytes on the
same processor and versions.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 7
ROWS = {"train": 3000, "test": 1000}
SECOND_TOPIC = 0.12
HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
FILES = ("train.parquet", "test.parquet", "topics.skops")

GREETINGS = ("Hello", "Hi there", "Good morning", "Dear team", "To whom it may concern", "Hey", "Good evening", "")
THINGS = (
    "kettle", "lamp", "desk chair", "blender", "bookshelf", "headphones", "rain jacket", "backpack", "mixer", "curtain",
    "toaster", "bicycle pump", "tent", "keyboard", "mirror", "drill", "carpet", "water bottle", "speaker", "hose",
)  # fmt: skip
COLOURS = ("red", "blue", "grey", "green", "black", "white", "yellow", "striped", "small", "large")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TOPICS: dict[str, tuple[str, ...]] = {
    "billing": (
        "I was charged twice for the {thing}", "the invoice shows {sum} euros instead of {less}",
        "my card was debited on {day} and the refund of {sum} euros is still missing",
        "please send me a receipt for the {thing} with our tax number", "the discount code took nothing off the price",
        "why is there a fee of {less} euros on my statement", "I would like to pay by bank transfer next time",
        "the amount on the invoice is wrong again", "my account was billed although I cancelled on {day}",
    ),
    "delivery": (
        "the parcel with the {thing} has not arrived", "tracking has said 'out for delivery' since {day}",
        "the driver left the {thing} in the rain", "can you bring it on {day} instead",
        "the package went to my old address", "nobody rang although I was at home all {day}",
        "how long does shipping of a {thing} take", "only one of the two boxes came on {day}",
        "the courier lost the {colour} {thing} on the way",
    ),
    "defect": (
        "the {thing} broke after {less} days", "the handle of the {colour} {thing} came off",
        "it makes a grinding noise and smells burnt", "the {thing} does not switch on any more",
        "there is a crack along the side of the {thing}", "the screen of the {thing} flickers since {day}",
        "a screw was missing and the {thing} wobbles", "the {colour} paint is peeling already",
        "the battery of the {thing} is empty after an hour",
    ),
    "account": (
        "I can't log in since {day}", "the link to reset my password never comes", "please delete my account and data",
        "how do I change the e-mail address of my profile", "the app signs me out every {less} minutes",
        "someone else seems to use my login", "my saved addresses are gone from the profile",
        "the two-step code arrives too late", "I forgot which user name I registered with",
    ),
}  # fmt: skip
TAILS = (
    "Please help.", "What can I do?", "I have been a customer for {less} years.", "This is the second time.",
    "Thank you in advance.", "I expect an answer by {day}.", "Order number {number}.", "Best regards, {name}",
    "I am rather disappointed.", "Could you look into it?", "My number is {number}.", "It was a present for my sister.",
    "We need it for the office.", "No hurry, though.", "I wrote about this on {day} already.",
)  # fmt: skip
NAMES = ("A. Berg", "Chidi", "Mei Lin", "R. Okafor", "Jana", "T. Novak", "Fatima", "L. Rossi", "Sam", "P. Quispe")


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes or checks the files; 1 where a file is not the one that was made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE, help="folder (default: the suite's own)")
    parser.add_argument("--check", action="store_true", help=f"only compare the files with {DIGESTS}")
    options = parser.parse_args(arguments)
    if options.check:
        return check(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    make(options.output)
    digests = {name: digest(options.output / name) for name in FILES}
    (options.output / DIGESTS).write_text(json.dumps(digests, indent=2) + "\n")
    return 0


def check(folder: Path) -> int:
    """Says which files differ from their digests."""
    stated: dict[str, str] = json.loads((folder / DIGESTS).read_text())
    wrong = [name for name in FILES if not (folder / name).is_file() or digest(folder / name) != stated.get(name)]
    for name in wrong:
        sys.stdout.write(f"{folder / name} is missing or not the file whose digest stands in {DIGESTS}\n")
    return 1 if wrong else 0


def make(folder: Path) -> None:
    """Writes messages and model; no message of the test is one of training."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import skops.io
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(SEED)
    written: dict[str, str] = {}
    while len(written) < sum(ROWS.values()):
        topic = str(rng.choice(list(TOPICS)))
        written.setdefault(message(topic, rng), topic)
    texts, topics = list(written), list(written.values())
    first = 0
    for name, rows in ROWS.items():
        part = slice(first, first + rows)
        table = pa.table({"id": range(first, first + rows), "message": texts[part], "topic": topics[part]})
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        first += rows
    model = make_pipeline(
        HashingVectorizer(n_features=2**12, ngram_range=(1, 2), alternate_sign=False),
        LogisticRegression(C=30.0, max_iter=2000),
    )
    model.fit(texts[: ROWS["train"]], topics[: ROWS["train"]])
    (folder / "topics.skops").write_bytes(settled(skops.io.dumps(model)))


def message(topic: str, rng: np.random.Generator) -> str:
    """A message about a topic; one in `SECOND_TOPIC` also touches another one."""

    def pick(choices: Sequence[str]) -> str:
        return str(choices[int(rng.integers(len(choices)))])

    parts = [pick(TOPICS[topic])]
    if rng.random() < SECOND_TOPIC:
        parts.append(pick(TOPICS[pick([name for name in TOPICS if name != topic])]))
    elif rng.random() < 0.5:
        parts.append(pick(TOPICS[topic]))
    tails = [pick(TAILS) for _ in range(int(rng.integers(1, 4)))]
    greeting = pick(GREETINGS)
    body = ", and ".join(parts)
    text = " ".join([f"{greeting}, {body}." if greeting else f"{body[0].upper()}{body[1:]}.", *dict.fromkeys(tails)])
    return text.format(
        thing=pick(THINGS), colour=pick(COLOURS), day=pick(DAYS), sum=int(rng.integers(20, 400)),
        less=int(rng.integers(2, 20)), number=int(rng.integers(10_000, 99_999)), name=pick(NAMES),
    )  # fmt: skip


def settled(archive: bytes) -> bytes:
    """The same skops archive without what differs from run to run, as the suite beside this one does it."""
    path = HERE.parent / "breast_cancer" / "make_breast_cancer.py"
    spec = importlib.util.spec_from_file_location("make_breast_cancer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: bytes = module.settled(archive)
    return made


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
