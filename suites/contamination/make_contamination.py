"""Makes the files of ``suites/contamination``.

    python suites/contamination/make_contamination.py [--output DIR]
    python suites/contamination/make_contamination.py --check

Questions of a quiz about places that don't exist, and texts about them, put together from parts that this file holds,
with a seed. The same bytes everywhere for the same versions of numpy and pyarrow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 11
QUESTIONS, CRAWLED, POSTED = 1000, 1200, 600
PLANTED = {"exact": 40, "near": 60, "span": 80, "paraphrase": 20}
RIGHT = 0.70
"""Share of the questions that the model can answer by itself; the planted ones it remembers."""
SPAN = 20
ANSWERS = ("a", "b", "c", "d")
HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
FILES = ("crawl.parquet", "forum.parquet", "test.parquet", "predictions.parquet")

FIRST = ("Bar", "Cel", "Dor", "Fen", "Gal", "Hul", "Ims", "Jor", "Kes", "Lun", "Mar", "Nev", "Ost", "Pel", "Quin",
         "Ras", "Sel", "Tor", "Ulm", "Vas", "Wen", "Yor", "Zal")  # fmt: skip
MIDDLE = ("a", "e", "i", "o", "u", "an", "en", "in", "on", "ar", "er", "or", "al", "el")
LAST = (
    "bach",
    "dale",
    "field",
    "gate",
    "holm",
    "ica",
    "ket",
    "lin",
    "mont",
    "nor",
    "pur",
    "rick",
    "stad",
    "ton",
    "vale",
)
THINGS = ("bridge", "mill", "archive", "lighthouse", "market", "garden", "canal", "tower", "library", "harbour",
          "clock", "theatre", "quarry", "school", "well", "tunnel")  # fmt: skip
MADE = ("built", "moved", "restored", "painted", "sold", "measured", "flooded", "rebuilt", "mapped", "opened")
CAUSES = ("fire", "flood", "election", "winter", "siege", "harvest", "strike", "eclipse", "storm", "drought")
QUALITIES = ("old", "narrow", "famous", "wooden", "northern", "unfinished", "round", "hidden", "second", "copper")
ASKED = (
    "The {quality} {thing} of {a} was {made} in {year} by {b} {c}, who had come from {d} after the {cause} of {later}. "
    "It cost {number} crowns and stands beside {e}. What did {b} {c} of {d} find below the {thing2} of {f}?",
    "After the {cause} of {year} the council of {a} asked {b} {c} to have the {quality} {thing} near {d} {made} for "
    "{number} crowns. In {later} it fell to {e}. Which {thing2} did {f} offer {b} {c} in its place?",
    "{b} {c} wrote in {year} that the {thing} between {a} and {d} had been {made} by {number} people from {e} before "
    "the {cause}. A {quality} {thing2} stood there until {later}. Who of {f} paid {b} {c} for it?",
)  # fmt: skip
RETOLD = (
    "People from {d} like to tell how {b}, of the {c} family, came away when the {cause} struck ({later}), and how the "
    "{thing} at {a} owes what it is today, {quality} as it looks, to this one visitor. {number} coins it took, in "
    "{year}, with {e} a stone's throw off; down under the {thing2}, over in {f}, something turned up."
)
TOLD = (
    "Travellers to {a} rarely miss the {quality} {thing}, which {b} {c} {made} in {year}.",
    "Between {d} and {e} the road follows a {thing2} that nobody has {made} since the {cause} of {later}.",
    "According to {c} {f}, {number} people of {a} lived from the {thing} before {year}.",
    "The {cause} of {later} took the {quality} {thing2} of {e}, and {b} {c} left for {d}.",
    "In {f} they say that {b} {c} never saw {number} crowns in one place, least of all at the {thing} of {a}.",
)
POSTS = ("Does anybody know this one? ", "From the quiz last {day}: ", "I keep seeing this, ", "Saved for later: ")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


@dataclass(frozen=True)
class Fact:
    """What a question is about: words for the slots of a sentence."""

    slots: dict[str, str]
    form: int

    @property
    def question(self) -> str:
        """As the quiz asks it."""
        return ASKED[self.form].format(**self.slots)


def fact(rng: np.random.Generator) -> Fact:
    """New words for all slots."""

    def pick(*choices: Sequence[str]) -> str:
        return "".join(str(some[int(rng.integers(len(some)))]) for some in choices)

    slots = {slot: pick(FIRST, MIDDLE, LAST) for slot in "abcdef"}
    slots |= {"thing": pick(THINGS), "thing2": pick(THINGS), "made": pick(MADE), "cause": pick(CAUSES)}
    slots |= {"quality": pick(QUALITIES), "year": str(rng.integers(1200, 1900)), "later": str(rng.integers(1200, 1900))}
    slots["number"] = f"{rng.integers(100, 90_000):,}"
    return Fact(slots, int(rng.integers(len(ASKED))))


def told(rng: np.random.Generator, sentences: int) -> str:
    """A text of other facts."""
    return " ".join(TOLD[int(rng.integers(len(TOLD)))].format(**fact(rng).slots) for _ in range(sentences))


def changed(question: str, rng: np.random.Generator) -> str:
    """One or two words of a question, exchanged for others."""
    words = question.split()
    for at in rng.choice(len(words), 1 + int(rng.integers(2)), replace=False):
        words[at] = fact(rng).slots["a"].lower()
    return " ".join(words)


def disguised(question: str, number: int) -> str:
    """The same words in another guise: capitals, white space, characters that look alike."""
    guises = (
        question, question.upper(), re.sub(" ", "  ", question), f"\n{question}\t", question.replace(" ", "\u00a0"),
        question.replace("fi", "\ufb01").replace("a", "\uff41"), question.replace("the", "t\u200bhe"),
    )  # fmt: skip
    return guises[number % len(guises)]


def quoted(question: str, rng: np.random.Generator) -> str:
    """Some words of a question in the middle of another text."""
    words = question.split()
    begin = int(rng.integers(len(words) - SPAN + 1))
    post = POSTS[int(rng.integers(len(POSTS)))].format(day=DAYS[int(rng.integers(len(DAYS)))])
    return f"{told(rng, 3)} {post}{' '.join(words[begin : begin + SPAN])}. {told(rng, 3)}"


def make(folder: Path) -> None:
    """Writes two training sets, the test set and the answers of a model that was trained on them."""
    rng = np.random.default_rng(SEED)
    facts = [fact(rng) for _ in range(QUESTIONS)]
    crawl = [told(rng, int(rng.integers(3, 8))) for _ in range(CRAWLED)]
    forum = [told(rng, int(rng.integers(1, 5))) for _ in range(POSTED)]
    planted = np.full(QUESTIONS, "", object)
    rows = iter(rng.permutation(QUESTIONS).tolist())
    for kind, count in PLANTED.items():
        for number in range(count):
            row = next(rows)
            planted[row] = kind
            question = facts[row].question
            text = {
                "exact": lambda q=question, n=number: disguised(q, n), "near": lambda q=question: changed(q, rng),
                "span": lambda q=question: quoted(q, rng), "paraphrase": lambda f=facts[row]: RETOLD.format(**f.slots),
            }[kind]()  # fmt: skip
            (crawl if number % 2 else forum).append(text)
    answers = rng.choice(ANSWERS, QUESTIONS)
    knows = (rng.random(QUESTIONS) < RIGHT) | (planted != "")
    said = np.where(knows, answers, [ANSWERS[(ANSWERS.index(one) + 1) % 4] for one in answers])
    sure = np.where(planted != "", 0.97, 0.70)
    crawl, forum = ([texts[place] for place in rng.permutation(len(texts))] for texts in (crawl, forum))
    tables = {
        "crawl": {"id": [f"c{row}" for row in range(len(crawl))], "text": crawl},
        "forum": {"id": [f"f{row}" for row in range(len(forum))], "text": forum},
        "test": {
            "id": [f"q{row}" for row in range(QUESTIONS)], "text": [one.question for one in facts],
            "answer": answers.tolist(), "planted": planted.tolist(),
        },
        "predictions": {
            "id": [f"q{row}" for row in range(QUESTIONS)],
            **{f"p_{one}": np.where(said == one, sure, (1 - sure) / 3) for one in ANSWERS},
        },
    }  # fmt: skip
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", compression="zstd")


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check(folder: Path) -> int:
    """Says which files differ from their digests."""
    stated: dict[str, str] = json.loads((folder / DIGESTS).read_text())
    wrong = [name for name in FILES if not (folder / name).is_file() or digest(folder / name) != stated.get(name)]
    for name in wrong:
        sys.stdout.write(f"{folder / name} is missing or not the file whose digest stands in {DIGESTS}\n")
    return 1 if wrong else 0


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


if __name__ == "__main__":
    sys.exit(main())
