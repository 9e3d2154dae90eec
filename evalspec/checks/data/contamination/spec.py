"""`contamination`: whether rows of the test set occur in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import ClassOfModel, Effort, Rows
from evalspec.language.header import Header, Matched, Misfit
from evalspec.language.parts import (
    Check,
    DatasetName,
    ModelName,
    Need,
    NeedLikelihoods,
    NeedPredictions,
    NeedRows,
    SpecNames,
)
from evalspec.language.reach import check_rows
from evalspec.language.units import Share
from evalspec.scoring.catalogue.metrics import SLICED, SliceMetric
from evalspec.scoring.sample_size import Sample, never_shown_of_pairs
from evalspec.tables.ngram import Ngram

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from evalspec.language.requirement import Requirement

FRACTIONS = tuple(metric.name for metric in SLICED if metric.unit == "fraction" and metric.better == "higher")
"""Metrics whose change is in points, up being better."""

FEWEST_SHUFFLES = 99


class Contamination(Check):
    """Copies of test rows in training: equal, nearly equal, or sharing spans of text.

    ## What it measures

    `exact_duplicates`: test rows that are equal to a training row in all compared columns. Texts are compared after
    Unicode normalisation (NFKC), case folding, and with invisible characters removed and white space folded.
    `near_duplicates`: share of test rows that have an exact or a near duplicate in training. `ngram_overlap`: share of
    test rows that share a span of words with a training text, which may be much longer; of the rows that are long
    enough to hold one. Each test row counts once, however often it occurs. Compared are the columns that the model
    reads, or those in `column`; never the label. Where neither is stated, a column of whole numbers or of short strings
    without white space that has another value in each test row (50 and more) is taken for a name of the row: it is left
    out, and the report says so. Rows in which every compared column is missing or
    empty, in test or in training, are left out and counted, and with them nothing is shown to hold; but for training
    rows whose text is there and blank, in which nothing of the test set can be (a csv's empty cell is missing).
    Beside these, where the spec asks for it:

    - `predictions: candidate`: `clean_score`, its `metric:` (default: accuracy) on the test rows that are not a
      copy (neither exact, nor near, nor sharing a span), and `clean_score_change`, the score of all rows minus that
      one.
    - `embedding: MODEL`: `embedding_neighbours`, share of test rows whose embedding points the way of a training row.
    - `prompts: MODEL`: `prompt_overlap`, test rows whose text is in that language model's system text, or is one of
      the examples that it is shown (`shots:`), word for word or nearly.
    - `recite: MODEL`: `recited`, share of test rows whose next 8 words a language model writes when it is shown the
      first half of the row, minus the share whose next 8 words it writes with two neighbours among them swapped. Of
      rows of 24 words and more, of those that go on as no other row does, and with words that the model is not sent.
      With `shuffles: 999` also the rank of the published order of the rows among shuffled ones, by the likelihood that
      the model gives them: no metric, but told in the report.
    - `key`: `shared_keys`, test rows with the key of a training row, whatever else they contain.

    ## Why it matters

    A model has seen the answers to rows that it was trained on. Its score on them is memory, and the higher score is
    not there in production. Copies come from crawls, from augmentation before splitting, from a source exported twice.

    ## Method

    Columns named in `column:` and `key:` must be in every set. Without `column:` those of the test set that a training
    set lacks are left out, which `validate` and the record tell; that a set shares none of them, or holds values of
    another kind in one (text for numbers), is an error of `validate`.

    Training rows stream past once, one training set after the other; what is kept in memory is an index of the test
    rows. Exact: digests of 128 bits over typed values (1 is 1.0, but not "1"; missing is not ""). Near, by column:

    - Text: Jaccard similarity of the sets of runs of `shingle_words` words is at least `similarity`. At the defaults
      one word changed among 15, or two among 30, is near. Candidates share one of their rarest shingles, of so many
      that no pair is missed (prefix filter; Chaudhuri 2006, Bayardo 2007): recall 100 %, where MinHash finds the share
      that its bands are solved for. Texts made from one form share much and are still separated fast, by what is left
      to share (Xiao 2011) and by bit sketches (Sandes 2020). All others are verified exactly. There is no closure over
      chains: a match is always a pair.
    - Arrays (pixels, signals, embeddings; fixed length): root mean square difference of at most `tolerance` of the
      range of values in the test set, or no value differs by more than 1 where they are whole numbers over a range of
      16 and more. The search is exact: recall 100 %.
    - Tables: every number differs by at most `tolerance` of its column's range (1st to 99th percentile of the test
      set), all else is equal. The search is exact: recall 100 %.
    - Pictures (arrays, or files in bytes; at least 32 x 32 pixels; the only column compared): also those that look the
      same. Perceptual hashes of 64 bits (DCT; Zauner 2010) of all pairs find candidates, pixels at 32 x 32 decide: they
      correlate by `picture_similarity` at least, whole or with 2 to 5 % cut off at the sides of one. Sizes may differ.
      Found of photographs of 128 x 128: encoded again (JPEG 20 to 90), halved, enlarged, 15 % brighter, made grey:
      100 %; with 2 to 5 % cut off: 93 % and more. Of 64 x 64, many with little in them: 82 % and more.

    Where columns are of several types each must be near by its own rule; a text column of at most 3 words on average
    that isn't the only column must be equal.

    Spans, by the rule in `ngram:`, over each text column; words are letters and digits in a row, of the text as it is
    compared above (`unit: characters` counts letters and digits themselves, `unit: tokens` the tokens of a model's
    `tokenizer: tokenizer.json`, all of a text and none of the special ones; some MB/s, where words are split at some
    hundred):

    - `any_hit` (the default; GPT-3, Brown 2020): one n-gram of 13 words is enough. n-grams that occur in more than 10
      training rows are dropped as common phrases. Text that was copied often looks the same, so how many rows that
      spares stands with the verdict.
    - `coverage` (PaLM, Chowdhery 2022): at least 70 % of the row's 8-grams are seen in training.
    - `longest_match` (ConTAM, Singh 2024): the longest span of words that lie in 8-grams seen in training is at least
      `share` of the row's words. `skip: 1` lets a span go on past one changed word.

    Embeddings: the cosine of all pairs (recall 100 %). What `embedding_similarity` means depends on the model, so the
    same share is printed for the test rows among themselves: the chance level. Keys: typed digests, as for rows.

    Prompts: what fills the places of the prompt, joined, is looked for as it is compared above. It is the same as an
    example's where the words are; it is in a text with at least 5 words; and it is near an example from
    `similarity` on.
    Recitation (after Carlini 2021, Golchin 2023): the longest text among the places is cut in half at a word, the
    first half is sent in its place, and the next 8 words are looked for anywhere in the answer. A row whose next 8
    words are those of another row too, or are in its first half, the system text or an example, says nothing and is
    left out. The control is a twin of each row in which the first two neighbours that differ among the 8 words are
    swapped: who knows the words and not the row writes one as often as the other. The difference is of pairs (Tango
    1998). It is NOT_RUN where most answers have fewer than 8 words: such a model is named once more, with a prompt that
    is the text alone.

    Order of rows (Oren 2023): up to 4 runs of neighbouring rows from the first on, each of 2,000 letters at most, are
    given to the model in the published order and in `shuffles` others. Who never saw the file finds each order as
    likely as any other, so p = (1 + orders at least as likely) / (1 + shuffles) is exact. A p-value of 0.01 or less
    stands with the verdict; a larger one shows nothing, and no requirement can ask for it.

    All others of these are facts about these files, without an interval; the recall is next to them. What was found,
    with its training row and the shared text, lies in the evidence.

    `clean_score_change` is a share of dirty rows, which is a fact, times the difference of the scores of dirty and
    clean rows, which are separate samples. Of shares of rows (accuracy) that difference has a score interval (Miettinen
    and Nurminen 1985), with clusters and of means MOVER (Zou and Donner 2008); with few dirty rows the bound is their
    share. Of other metrics (macro F1, areas): BCa over rows, drawn within the dirty and the clean ones, with at least
    50 of each; of boxes and masks the value only. The report repeats the clean score where `quality` gives that of all
    rows.

    ## What it cannot show

    That a model which does not recite has not seen the rows: it may know them by heart and answer the question instead.
    That one which finds the published order likely has seen the file, where rows are sorted, by subject for example.
    Paraphrases, translations; pictures that were mirrored, turned or cut more strongly, other pictures of the same
    thing; spans shorter than n words, or changed more often than every n words; training data that the spec does not
    name, such as that of a pretrained model. Rows with few distinct values agree by chance, and so do pictures of one
    scene (a fixed camera, X-rays) and embeddings that all point one way: compare with the repeats, look-alikes and
    neighbours inside the test set, which are shown. A higher score on copies may also come from copies being easier; a
    copy that was missed counts as clean.

    ## Example

    ```yaml
    data:
      - check: contamination
        train: [train]
        test: test
        require: [exact_duplicates == 0, near_duplicates <= 0.5 %]
    ```
    """

    dimension: ClassVar[Literal["data"]] = "data"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "exact_duplicates",
            "rows",
            "lower",
            "Test rows that are equal to a training row.",
            exact=True,
            label="test rows that are also in training",
        ),
        Metric(
            "near_duplicates",
            "%",
            "lower",
            "Test rows equal or nearly equal to a training row.",
            exact=True,
            label="test rows equal or nearly equal to training rows",
        ),
        Metric(
            "ngram_overlap",
            "%",
            "lower",
            "Test rows that share a span of words with training.",
            exact=True,
            label="test texts that share a span with training",
        ),
        Metric(
            "embedding_neighbours",
            "%",
            "lower",
            "Test rows with a neighbour in training.",
            exact=True,
            label="test rows with a neighbour in training",
        ),
        Metric(
            "shared_keys",
            "rows",
            "lower",
            "Test rows with the key of a training row.",
            exact=True,
            label="test rows whose key is in training",
        ),
        Metric(
            "prompt_overlap",
            "rows",
            "lower",
            "Test rows that are in the prompt of a model.",
            exact=True,
            label="test rows in the prompt",
        ),
        Metric(
            "recited",
            "%",
            "lower",
            "Share of long test rows that a model continues word for word, minus that with two swapped.",
            interval="Tango's score interval of pairs, with clusters",
            label="test rows that the model recites",
        ),
        Metric(
            "clean_score_change",
            "pp",
            "lower",
            "`metric:` of all test rows minus that of those not seen in training.",
            interval="share of dirty rows x the score interval of dirty minus clean rows (MOVER with clusters and of "
            "means); BCa over rows of a metric that is not a mean",
            shows=("clean score change",),
            label="score that copies of training rows add",
        ),
        Metric(
            "clean_score",
            "fraction",
            "higher",
            "`metric:` of the test rows not seen in training.",
            interval="that of the metric in `quality`",
            shows=("clean score",),
            label="score without rows seen in training",
        ),
    )

    check: Literal["contamination"] = "contamination"
    train: Annotated[tuple[DatasetName, ...], Rows("trained")] = Field(
        min_length=1, description="What the model was trained and calibrated on."
    )
    test: Annotated[DatasetName, Rows("beside")] = Field(description="The rows that must be new to it.")
    column: str | tuple[str, ...] = Field((), description="Column or columns compared; default: what the model reads.")
    key: str | tuple[str, ...] | None = Field(
        None, description="Column or columns that name a row: rows with the key of a training row are counted."
    )
    predictions: ModelName | None = Field(
        None, description="Model whose answers are scored on the clean rows beside all of them."
    )
    metric_: SliceMetric = Field("accuracy", alias="metric", description="What `predictions` are scored by.")
    positive: Annotated[str | None, ClassOfModel()] = Field(
        None, description="Class that precision, recall, f1 and roc_auc are about."
    )
    decision_threshold: float | None = Field(
        None, gt=0, lt=1, description="Predict the positive one of two classes where its probability is at least this."
    )
    prompts: ModelName | None = Field(
        None, description="Model whose system text and examples are searched for test rows, for prompt_overlap."
    )
    recite: ModelName | None = Field(
        None, description="Model that is shown the first half of each long test row, for recited."
    )
    shuffles: Annotated[int, Effort()] = Field(
        0,
        ge=0,
        le=9999,
        description="Shuffled orders of the rows that `recite:` tries in addition to the published one; 0: none.",
    )
    embedding: ModelName | None = Field(
        None, description="Model whose `outputs: {embedding: ...}` are compared, all pairs of test and training rows."
    )
    embedding_similarity: float = Field(
        0.95, gt=0.0, le=1.0, description="Embeddings: cosine from which on rows are neighbours."
    )
    picture_similarity: float = Field(
        0.95, gt=0.5, le=1.0, description="Pictures: correlation of pixels at 32 x 32 from which on they look the same."
    )
    similarity: float = Field(0.7, ge=0.1, le=1.0, description="Texts: Jaccard similarity from which on they are near.")
    shingle_words: int = Field(2, ge=1, le=20, description="Texts: words in a shingle.")
    ngram: Ngram = Field(default_factory=Ngram, description="Texts: what counts as a shared span, for `ngram_overlap`.")
    tolerance: Share = Field(
        0.02, ge=0.0, lt=1.0, description="Numbers and arrays: difference, as a share of the range."
    )
    show_examples: Annotated[bool, Effort()] = Field(
        True, description="Show pairs side by side, and write shared spans to the evidence."
    )

    @model_validator(mode="after")
    def _sets_differ(self) -> Self:
        if self.test in self.train:
            raise ValueError(f"the test set {self.test!r} is named among its own training sets")
        if len(set(self.train)) < len(self.train):
            raise ValueError(f"a training set is named twice: {', '.join(self.train)}")
        if self.shuffles and (self.recite is None or self.shuffles < FEWEST_SHUFFLES):
            raise ValueError(f"`shuffles:` are at least {FEWEST_SHUFFLES}, of the model that `recite:` names")
        return self

    @property
    def passing(self) -> tuple[str, ...]:
        """The training sets."""
        return self.train

    @property
    def named(self) -> tuple[str, ...]:
        """The columns named in ``column``."""
        return (self.column,) if isinstance(self.column, str) else self.column

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns named in ``key``."""
        return (self.key,) if isinstance(self.key, str) else self.key or ()

    def files_named(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """The tokenizer."""
        if self.ngram.tokenizer is not None:
            yield ("ngram", "tokenizer"), self.ngram.tokenizer

    def check_names(self, names: SpecNames) -> str | None:
        return self.ngram.problem

    def needs(self) -> tuple[Need, ...]:
        """Rows of all sets, and what models say of them."""
        everywhere = (*self.train, self.test)
        rows = tuple(NeedRows(name, columns=self.named + self.keys) for name in everywhere)
        scored = () if self.predictions is None else (NeedPredictions(self.test, self.predictions),)
        embedding = self.embedding
        embedded = (
            () if embedding is None else tuple(NeedPredictions(name, embedding, label=False) for name in everywhere)
        )
        recited = () if self.recite is None else (NeedPredictions(self.test, self.recite, label=False, copies=1),)
        ordered = () if self.recite is None or not self.shuffles else (NeedLikelihoods(self.test, self.recite),)
        return (*rows, *scored, *recited, *ordered, *embedded)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: what it is about isn't asked for, or its metric has no change in points."""
        asked = {
            "clean_score": ("predictions", self.predictions, "the model whose answers are scored"),
            "clean_score_change": ("predictions", self.predictions, "the model whose answers are scored"),
            "embedding_neighbours": ("embedding", self.embedding, "the model that gives embeddings"),
            "prompt_overlap": ("prompts", self.prompts, "the model whose prompt is searched"),
            "recited": ("recite", self.recite, "the model that is shown halves of rows"),
            "shared_keys": ("key", self.keys, "the column that identifies a row"),
        }
        field, value, what = asked.get(requirement.metric, ("", True, ""))
        if not value:
            return f"{requirement.metric} needs `{field}:`, {what}"
        if requirement.model is not None:
            return f"{requirement.metric} is not compared between models; require it of each"
        if field == "predictions" and self.metric_ not in FRACTIONS:
            return (
                f"{requirement.metric} is in points and {self.metric_} is not a fraction that is better when higher; "
                "take another `metric:`, such as accuracy"
            )
        if requirement.metric == "recited":
            sample = Sample(self.test, rows.get(self.test), confidence)
            return never_shown_of_pairs(requirement, sample, "were none of them recited")
        return check_rows(requirement, self.test, rows.get(self.test))

    def matched(self, labels: Mapping[str, str]) -> tuple[Matched, ...]:
        """Columns of the test set; without `column:` those that a training set lacks are left out, and told."""
        return (Matched(self.test, tuple(self.train), self.named, frozenset(self.keys), field="column"),)

    def check_headers(self, headers: Mapping[str, Header], labels: Mapping[str, str]) -> Iterator[Misfit]:
        """A label among the columns that are compared: a row is a copy whatever its label says."""
        for name in dict.fromkeys((self.test, *self.train)):
            label = labels.get(name)
            if label is not None and label in self.named:
                path = ("column",) if isinstance(self.column, str) else ("column", self.named.index(label))
                message = f"{label!r} is the label of {name}, and a copy is one whatever its label says"
                yield Misfit(path, Problem(message, remedy="name the columns that the model reads"))
                return
