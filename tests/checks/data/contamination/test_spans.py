"""`contamination` of texts: spans by each rule, several training sets, batches, and input that is not in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.errors import InputError
from evalspec.evidence.blocks import Examples, Table
from evalspec.evidence.estimate import Fact, Measured
from evalspec.language.parts import CheckResult, SpecNames
from evalspec.language.scans import Scan, look
from evalspec.sources.reading.subwords import Subwords
from evalspec.tables.ngram import Ngram
from tests.fakes import FakeInputs

WORDS = np.array([f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "st", "lk")])


def texts(count: int, seed: int, words: int = 60) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (count, words))]]


def run(
    tmp_path: Path, train: dict[str, list[str | None]], test: list[str | None], rows: int = 65_536, **fields: object
) -> CheckResult:
    tables = {name: pa.table({"text": pa.array(some, pa.string())}) for name, some in (*train.items(), ("test", test))}
    inputs = FakeInputs(tmp_path, tables=tables, batch_rows=rows)
    check = {"check": "contamination", "train": list(train), "test": "test", "report_only": True}
    return Contamination.model_validate({**check, **fields}).run(inputs)


def value(result: CheckResult, metric: str = "ngram_overlap") -> float:
    fact = result.estimates[metric]
    fact = fact.estimate if isinstance(fact, Measured) else fact
    assert isinstance(fact, Fact)
    return fact.value


def spanned(count: int, length: int = 30) -> tuple[list[str], list[str]]:
    """Training texts the middle of which is a span of a test text, and the test texts."""
    train, test = texts(400, 0), texts(100, 1)
    for row in range(count):
        own, other = train[3 * row].split(), test[row].split()
        at = (7 * row) % (60 - length + 1)
        train[3 * row] = " ".join([*own[:40], *other[at : at + length], *own[40:]])
    return train, test


def test_a_span_inside_a_longer_text_is_found(tmp_path: Path) -> None:
    train, test = spanned(40)
    result = run(tmp_path, {"train": train}, test)
    assert value(result) == pytest.approx(0.40)
    assert value(result, "near_duplicates") == 0
    evidence = pq.read_table(tmp_path / "duplicates-contamination.parquet").to_pylist()
    assert [row["test_row"] for row in evidence] == list(range(40))
    assert [row["train_row"] for row in evidence] == [3 * row for row in range(40)]
    assert {row["kind"] for row in evidence} == {"span"}
    for row in evidence:
        assert len(row["text"].split()) >= 30
        assert row["text"] in test[row["test_row"]]
        assert row["closeness"] == pytest.approx(len(row["text"].split()) / 60)


class Changing(FakeInputs):
    """Training rows are read in full once; after that they are the other way round, or fewer."""

    def batches(self, dataset: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        left = self.wheres.get("left")
        whole = list(super().batches(dataset, columns))
        if columns is None or left is None:
            return iter(whole)
        rows = pa.Table.from_batches(whole)
        numbers = np.arange(rows.num_rows)[::-1] if left == "turned" else np.arange(0)
        return iter(rows.take(pa.array(numbers)).to_batches())

    def scan(self, scans: Sequence[Scan]) -> list[Any]:
        return look(scans, super().batches)


@pytest.mark.parametrize(
    ("left", "words"),
    [("turned", "row 0 of train has changed since it was read first: rows change while they are read"),
     ("none", "dataset train: there is no row 21 any more: the rows change while they are read")],
)  # fmt: skip
def test_training_rows_that_are_others_when_they_are_read_again_are_said(left: str, words: str, tmp_path: Path) -> None:
    train, test = spanned(10)
    tables = {"train": pa.table({"text": train}), "test": pa.table({"text": test})}
    check = Contamination.model_validate(
        {"check": "contamination", "train": ["train"], "test": "test", "report_only": True}
    )
    with pytest.raises(InputError) as caught:
        check.run(Changing(tmp_path, tables=tables, wheres={"left": left}))
    assert str(caught.value).startswith(words)
    assert check.run(Changing(tmp_path, tables=tables)).blocks


def test_copies_near_copies_and_spans_are_found_and_nothing_else(tmp_path: Path) -> None:
    """Documents of 60 to 400 words: 40 copies, 40 with 4 % of the words replaced, 40 spans of 30 words."""
    rng = np.random.default_rng(12)
    train, test = (
        [WORDS[rng.integers(0, len(WORDS), size)] for size in rng.integers(60, 401, count)] for count in (600, 300)
    )
    for row in range(40):
        train[row] = test[row]
        train[40 + row] = test[40 + row].copy()
        changed = rng.choice(len(train[40 + row]), round(0.04 * len(train[40 + row])), replace=False)
        train[40 + row][changed] = "replaced"
        begin, middle = rng.integers(0, len(test[80 + row]) - 29), len(train[80 + row]) // 2
        span = test[80 + row][begin : begin + 30]
        train[80 + row] = np.concatenate([train[80 + row][:middle], span, train[80 + row][middle:]])
    result = run(tmp_path, {"train": [" ".join(one) for one in train]}, [" ".join(one) for one in test])
    assert value(result, "exact_duplicates") == 40
    assert value(result, "near_duplicates") == pytest.approx(80 / 300)
    assert value(result) == pytest.approx(120 / 300, abs=2 / 300)
    pairs = {
        (row["test_row"], row["train_row"])
        for row in pq.read_table(tmp_path / "duplicates-contamination.parquet").to_pylist()
    }
    assert pairs <= {(row, row) for row in range(120)}


def test_pairs_show_what_is_shared(tmp_path: Path) -> None:
    train, test = spanned(40)
    result = run(tmp_path, {"train": train}, test)
    shown = next(block for block in result.blocks if isinstance(block, Examples))
    assert shown.total == 40
    assert len(shown.examples) == 16
    left, right = shown.examples[:2]
    assert (left.title, right.title) == ("test, row 0", "train, row 0")
    assert left.text is not None
    assert right.text is not None
    assert left.text[:60] in right.text
    assert left.fields["found"] == "30 of 60 words"
    table = next(block for block in result.blocks if isinstance(block, Table))
    assert table.rows == (("train", 400, 0, 0, 40, 40.0),)


def test_texts_are_not_shown_where_they_must_not_be(tmp_path: Path) -> None:
    train, test = spanned(5)
    result = run(tmp_path, {"train": train}, test, show_examples=False)
    assert not [block for block in result.blocks if isinstance(block, Examples)]
    assert pq.read_table(tmp_path / "duplicates-contamination.parquet").column("text").null_count == 5


def test_capitals_accents_and_white_space_hide_no_span(tmp_path: Path) -> None:
    train, test = texts(50, 0), texts(50, 1)
    words = test[0].split()
    train[9] = train[9] + "\u00a0\u201c" + " \n ".join(words[10:40]).upper() + "\u201d"
    test[1] = "caf\u00e9 stra\u00dfe " * 10
    train[20] = "x " + "CAFE\u0301 STRASSE " * 10
    result = run(tmp_path, {"train": train}, test)
    assert value(result) == pytest.approx(2 / 50)


@pytest.mark.parametrize(("span", "flagged"), [(12, 0), (13, 10)])
def test_thirteen_words_are_a_span_and_twelve_are_none(tmp_path: Path, span: int, flagged: int) -> None:
    train, test = spanned(10, span)
    assert value(run(tmp_path, {"train": train}, test)) == pytest.approx(flagged / 100)


def test_coverage_counts_the_n_grams_of_the_row(tmp_path: Path) -> None:
    """A row of 60 words has 53 8-grams; a span of 45 holds 38 of them (71.7 %), one of 44 37 (69.8 %)."""
    train, test = spanned(10, 45)
    rule = {"rule": "coverage"}
    assert value(run(tmp_path, {"train": train}, test, ngram=rule)) == pytest.approx(0.10)
    train, test = spanned(10, 44)
    assert value(run(tmp_path, {"train": train}, test, ngram=rule)) == 0
    assert value(run(tmp_path, {"train": train}, test, ngram={**rule, "share": "60 %"})) == pytest.approx(0.10)


def test_longest_match_is_a_share_of_the_words_and_may_skip_one(tmp_path: Path) -> None:
    train, test = texts(50, 0), texts(50, 1)
    changed = test[0].split()
    changed[20] = "another"
    train[5] = " ".join([*train[5].split(), *changed[5:45]])
    # 24 words after the changed one, 15 before it; 40 with it.
    for share, skip, found in ((0.40, 0, 1), (0.41, 0, 0), (0.66, 1, 1), (0.67, 1, 0)):
        rule = {"rule": "longest_match", "share": f"{100 * share:g} %", "skip": skip}
        result = run(tmp_path, {"train": train}, test, ngram=rule)
        assert value(result) == pytest.approx(found / 50), (share, skip)


def test_characters_find_a_span_across_other_spaces(tmp_path: Path) -> None:
    train, test = texts(50, 0), texts(50, 1)
    train[7] = train[7] + "-".join(test[3].split()[10:40]).replace("a", "a ")
    assert value(run(tmp_path, {"train": train}, test)) == 0
    assert value(run(tmp_path, {"train": train}, test, ngram={"unit": "characters"})) == pytest.approx(1 / 50)


def test_common_phrases_are_dropped_and_said(tmp_path: Path) -> None:
    train, test = texts(50, 0), texts(50, 1)
    phrase = " ".join(texts(1, 2)[0].split()[:20])
    train[:11] = [f"{text} {phrase}" for text in train[:11]]
    test[0] = f"{phrase} {test[0]}"
    result = run(tmp_path, {"train": train}, test)
    assert value(result) == 0
    (weakens,) = result.weakens
    assert "1 row of test shares only spans that occur in more than 10 training rows" in weakens
    kept = run(tmp_path, {"train": train}, test, ngram={"max_rows": 11})
    assert value(kept) == pytest.approx(1 / 50)
    assert not kept.weakens
    assert value(run(tmp_path, {"train": train[:10]}, test)) == pytest.approx(1 / 50)
    assert value(run(tmp_path, {"train": train[:3]}, test, ngram={"min_count": 4})) == 0


def test_several_training_sets_add_up(tmp_path: Path) -> None:
    test = texts(20, 1)
    words = test[0].split()
    train = {
        "crawl": [*texts(30, 2), " ".join(words[:30])],
        "books": [*texts(30, 3), " ".join(words[30:]), test[1]],
        "notes": texts(30, 4),
    }
    result = run(tmp_path, train, test, ngram={"rule": "coverage"})
    # Neither half is 70 % of the first row, both are; the second row is in one of them whole.
    assert value(result) == pytest.approx(2 / 20)
    table = next(block for block in result.blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows] == ["crawl", "books", "notes", "any of them"]
    assert [row[4] for row in table.rows] == [0, 1, 0, 2]
    assert [row[2] for row in table.rows] == [0, 1, 0, 1]


@pytest.mark.proof
@pytest.mark.parametrize("rows", [1, 7, 65_536])
def test_batches_make_no_difference(tmp_path: Path, rows: int) -> None:
    train, test = spanned(20)
    train[200:230] = test[50:80]
    train[300] = test[60].upper()
    changed = test[90].split()
    changed[3] = changed[50] = "changed"
    train[301] = " ".join(changed)
    result = run(tmp_path, {"train": train}, test, rows)
    assert value(result, "exact_duplicates") == 30
    assert value(result, "near_duplicates") == pytest.approx(0.31)
    assert value(result) == pytest.approx(0.51)
    found = pq.read_table(tmp_path / "duplicates-contamination.parquet").to_pylist()
    assert [row["train_row"] for row in found if row["kind"] == "exact"] == list(range(200, 230))
    assert [(row["test_row"], row["train_row"]) for row in found if row["kind"] == "near"] == [(90, 301)]


def test_rows_too_short_for_a_span_are_told_and_do_not_count(tmp_path: Path) -> None:
    train, test = spanned(10)
    result = run(tmp_path, {"train": train}, [*test[:20], "only five words in here", "", None])
    assert value(result) == pytest.approx(10 / 20)
    found = result.estimates["ngram_overlap"]
    fact = found.estimate if isinstance(found, Measured) else found
    assert isinstance(fact, Fact)
    assert fact.n == 20
    assert any("1 row of test has fewer than 13 words" in note for note in result.notes)
    assert (result.counts.attempted, result.counts.used, result.counts.dropped) == (23, 21, 2)
    short = run(tmp_path, {"train": train}, ["a few words", "more of them"])
    assert "ngram_overlap" not in short.estimates
    assert "no row of test has the 13 words" in short.missing["ngram_overlap"]


def test_texts_beside_other_columns(tmp_path: Path) -> None:
    train, test = spanned(10)
    tables = {
        "train": pa.table({"text": train, "site": ["a"] * 400, "x": np.arange(400.0)}),
        "test": pa.table({"text": test, "site": ["b"] * 100, "x": np.arange(100.0)}),
    }
    inputs = FakeInputs(tmp_path, tables=tables, batch_rows=150)
    result = Contamination(train=("train",), test="test", report_only=True).run(inputs)
    assert value(result) == pytest.approx(0.10)
    assert value(result, "near_duplicates") == 0
    numbers = {name: table.select(["x"]) for name, table in tables.items()}
    result = Contamination(train=("train",), test="test", report_only=True).run(FakeInputs(tmp_path, tables=numbers))
    assert "nothing that is compared is a text" in result.missing["ngram_overlap"]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_other_types_of_text(tmp_path: Path, kind: pa.DataType) -> None:
    plain = pa.array([*texts(5, 0), None])
    for train, test in ((plain.cast(kind), plain), (plain, plain.cast(kind))):
        tables = {"train": pa.table({"text": train}), "test": pa.table({"text": test})}
        result = Contamination(train=("train",), test="test", report_only=True).run(FakeInputs(tmp_path, tables=tables))
        assert value(result, "exact_duplicates") == 5
        assert value(result) == 1.0


def test_invalid_utf8_is_refused_in_a_sentence(tmp_path: Path) -> None:
    content = [*[f"caf\u00e9 {row}".encode() for row in range(9)], b"abc\xff\xfedef", b"last"]
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in content]))).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(content))]
    broken = pa.Array.from_buffers(pa.string(), len(content), buffers)
    fine = pa.array(["abc", "def " * 20])
    for train, test, name in ((broken, fine, "train"), (fine, broken, "test")):
        tables = {"train": pa.table({"text": train}), "test": pa.table({"text": test})}
        inputs = FakeInputs(tmp_path, tables=tables, batch_rows=4)
        with pytest.raises(InputError, match=rf"dataset {name}: a text is not UTF-8 \(row 9\)"):
            Contamination(train=("train",), test="test", report_only=True).run(inputs)


def test_a_huge_cell_and_odd_letters(tmp_path: Path) -> None:
    word = "z" * 300_000
    sentence = " ".join(texts(1, 5)[0].split()[:20])
    huge = f"{' '.join(texts(2000, 6))} {sentence} {word}"
    test: list[str | None] = [sentence, word, "\u200b\u200b", "\x00\x00", "\U0001f600 " * 20, "\u0301" * 40]
    result = run(tmp_path, {"train": [None, "", huge, word.upper(), "\x00\x00"]}, test)
    assert value(result) == 1.0
    found = result.estimates["ngram_overlap"]
    fact = found.estimate if isinstance(found, Measured) else found
    assert isinstance(fact, Fact)
    assert fact.n == 1
    # The long word and the two zero letters.
    assert value(result, "exact_duplicates") == 2
    assert result.counts.dropped == 1


def test_a_test_set_that_is_its_own_training(tmp_path: Path) -> None:
    same = texts(200, 7)
    result = run(tmp_path, {"train": same * 3}, list(same))
    assert value(result, "exact_duplicates") == 200
    assert value(result) == 1.0


@pytest.mark.parametrize(
    ("ngram", "words"),
    [
        ({"share": "50 %"}, "goes with `rule: coverage`"),
        ({"rule": "longest_match"}, "needs a `share:`"),
        ({"rule": "coverage", "max_rows": 3}, "goes with `rule: any_hit`"),
        ({"rule": "coverage", "skip": 1}, "goes with `rule: longest_match`"),
        ({"min_count": 11}, "more than the 10 rows"),
        ({"rule": "longest_match", "share": "30 %", "skip": 2, "min_count": 3}, None),
    ],
)
def test_settings_that_do_not_fit(ngram: dict[str, object], words: str | None) -> None:
    rule = Ngram.model_validate(ngram)
    check = Contamination(train=("train",), test="test", ngram=rule, report_only=True)
    problem = check.check_names(SpecNames(models=(), datasets=("train", "test"), slices=()))
    assert problem is None if words is None else words in (problem or "")


def test_defaults_are_the_published_ones() -> None:
    sizes = {rule: Ngram.model_validate({"rule": rule}).size for rule in ("any_hit", "coverage", "longest_match")}
    assert sizes == {"any_hit": 13, "coverage": 8, "longest_match": 8}
    assert Ngram().max_rows_used == 10
    assert Ngram(rule="coverage").share_used == 0.7
    assert Ngram(unit="characters").size == 50


def test_training_rows_are_not_kept(tmp_path: Path) -> None:
    """Each batch can go before the next one comes."""
    held: list[int] = []

    class Passing(FakeInputs):
        def batches(self, dataset: str, columns: object = None) -> Iterator[pa.RecordBatch]:
            for seed in range(12):
                held.append(pa.total_allocated_bytes())
                yield pa.record_batch({"text": texts(200, 2 + seed)})

    test = texts(50, 1)
    inputs = Passing(tmp_path, tables={"test": pa.table({"text": test})})
    result = Contamination(train=("train",), test="test", report_only=True).run(inputs)
    assert value(result) == 0
    size = sum(map(len, texts(200, 2)))
    assert max(held[2:]) - min(held[2:]) < 3 * size


@pytest.mark.parametrize("rows", [97, 65_536])
def test_tables_and_arrays_come_in_batches_too(tmp_path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    train, test = rng.random((500, 6)), rng.random((100, 6))
    test[:20], test[20:30] = train[100:120], train[400:410] + 1e-4
    flat = {name: pa.FixedSizeListArray.from_arrays(some.ravel(), 6) for name, some in (("a", train), ("b", test))}
    numbers = {name: dict(zip("uvwxyz", some.T, strict=True)) for name, some in (("a", train), ("b", test))}
    for tables in ({n: pa.table({"v": v}) for n, v in flat.items()}, {n: pa.table(v) for n, v in numbers.items()}):
        inputs = FakeInputs(tmp_path, tables={"train": tables["a"], "test": tables["b"]}, batch_rows=rows)
        result = Contamination(train=("train",), test="test", report_only=True).run(inputs)
        assert value(result, "exact_duplicates") == 20
        assert value(result, "near_duplicates") == pytest.approx(0.30)
        found = pq.read_table(tmp_path / "duplicates-contamination.parquet").to_pydict()
        assert found["train_row"] == [*range(100, 120), *range(400, 410)]


def _tokenizer(folder: Path) -> str:
    """Pieces of words; the file says to cut texts after four tokens, and to fill them up."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordPiece(
        {
            "[UNK]": 0,
            **{
                piece: at + 1
                for at, piece in enumerate([*"abcdefgh", *(f"##{one}" for one in "abcdefgh\u00e9"), "\u00e9"])
            },
        },
        unk_token="[UNK]",
    )
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_truncation(4)
    made.enable_padding(length=40)
    made.save(str(folder / "tokenizer.json"))
    return "tokenizer.json"


def test_spans_of_tokens_are_those_of_the_tokenizer(tmp_path: Path) -> None:
    tokens = {"unit": "tokens", "tokenizer": _tokenizer(tmp_path), "n": 6}
    test: list[str | None] = ["here \u00e9ab  CDEFGH too", "aaa bbb ccc"]
    copied = run(tmp_path, {"train": ["a", None, "so \u00c9AB cdefgh is"]}, test, ngram=tokens)
    assert value(copied) == 0.5
    assert copied.conditions["tokenizer"] == sha256((tmp_path / "tokenizer.json").read_bytes()).hexdigest()
    written = pq.read_table(tmp_path / copied.evidence[0][0]).to_pylist()
    assert [(row["test_row"], row["train_row"], row["text"]) for row in written] == [(0, 2, "\u00e9ab cdefgh")]
    # The same letters, but the pieces that begin a word are others than those within one.
    joined: dict[str, list[str | None]] = {"train": ["\u00e9abcdefgh"]}
    assert value(run(tmp_path, joined, test, ngram=tokens)) == 0.0
    assert value(run(tmp_path, joined, test, ngram={"unit": "characters", "n": 6})) == 0.5


def test_what_a_tokenizer_needs(tmp_path: Path) -> None:
    tokens = {"unit": "tokens", "tokenizer": _tokenizer(tmp_path)}
    check = {"check": "contamination", "train": ["train"], "test": "test", "ngram": tokens, "report_only": True}
    asked = Contamination.model_validate(check)
    assert asked.check_names(SpecNames(("candidate",), ("train", "test"), ())) is None
    assert list(asked.files_named()) == [(("ngram", "tokenizer"), "tokenizer.json")]


def test_a_tokenizer_that_is_none_is_refused(tmp_path: Path) -> None:
    assert "go together" in str(Ngram(unit="tokens").problem)
    assert "go together" in str(Ngram(tokenizer="tokenizer.json").problem)
    pytest.importorskip("tokenizers")
    for text, said in ((None, "can't be read"), ("{}", "is not a tokenizer"), ("no", "is not a tokenizer")):
        if text is not None:
            (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(InputError, match=said):
            Subwords(tmp_path / "tokenizer.json")
