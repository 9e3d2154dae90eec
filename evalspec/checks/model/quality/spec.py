"""`quality`: how often a model is right, and how far off it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric, Shows
from evalspec.language.declarations import ClassOfModel, Effort, Listing
from evalspec.language.parts import Check, DatasetName, Model, Need, NeedPredictions, NeedRows
from evalspec.language.requirement import Same
from evalspec.scoring.catalogue.boxes import missing_detection
from evalspec.scoring.catalogue.metrics import METRICS, QualityMetric
from evalspec.scoring.catalogue.ranking import AT_K
from evalspec.scoring.catalogue.ranking import NAMES as RANKED_LISTS
from evalspec.scoring.catalogue.samples import NAMES as OF_SAMPLES
from evalspec.scoring.catalogue.text import missing_package
from evalspec.scoring.sample_size import Sample, kind_of, never_shown

if TYPE_CHECKING:
    from evalspec.language.inputs import Predictions, RowScores
    from evalspec.language.requirement import Requirement


class Quality(Check):
    """Score a model on labelled rows: how often it is right, or how far off it is.

    ## What it measures
    Models with classes: `accuracy`, `top_k_accuracy(k)`, `balanced_accuracy`, `macro_precision`, `macro_recall`,
    `macro_f1`, `precision(class)`, `recall(class)`, `f1(class)`, `roc_auc`, `average_precision`, `log_loss`, `brier`.
    Models with values: `mae`, `rmse`, `r2`.
    Models that give each row any number of classes (`multilabel: true`): `micro_f1`, `macro_f1`, `precision(class)`,
    `recall(class)`, `f1(class)`, `subset_accuracy`, `hamming_loss`, `average_precision`, `roc_auc`.
    Models that write text: `exact_match`, `token_f1`, `rouge1`, `rouge2`, `rouge_l`, `bleu`, `chrf`.
    Texts of which several answer one question (`query:`): `pass_at(k)`, `pass_all(k)`.
    Models that find boxes: `map`, `map_50`, `map_75`, `average_recall`, `ap(class)`.
    Models that give a class for each pixel: `mean_iou`, `mean_dice`, `pixel_accuracy`, `iou(class)`.
    Rows that are candidates of queries (`query:`), ranked by the model's value or its probability of the positive
    class: `ndcg(k)`, `mrr`, `recall_at(k)`, `hit_rate(k)`.
    For comparison, the report shows the scores of answers that ignore the row: always the most frequent class
    (`majority`), a class drawn evenly (`chance`), the best single value or the most frequent text (`constant`), every
    class (`all`).

    ## Why it matters
    One number hides a lot. Where 1 row in 100 is fraud, a model that finds 1 fraud in 10 is 99 % accurate, and so is
    one that never says fraud. Recall of each class and the majority baseline show it.

    ## Method
    Shares of rows (accuracy, top-k, recall, precision; F1 through the hits among the rows that are or are called the
    class): Clopper-Pearson; with clusters, Korn and Graubard.
    Balanced accuracy, macro precision and macro recall: a score test of the classes' mean share.
    Means of a row's loss: BCa, by saddlepoint in place of resamples with at least 200 rows. Where the largest possible
    loss is known (Brier 1 or 2, log loss 36.04, scores of texts and lists 0 to 1), one more row of the worst kind is
    taken into account: where it would change the variance, and below 200 rows, the bound is Gaffke's, which holds for
    any number of rows and whatever was not drawn. So 2,000 rows alone leave room for a log loss of 0.054 more than was
    seen. Absolute and squared errors (mae, rmse) have no largest value; their bounds say nothing about an error that is
    so rare that these rows have none of it.
    Area under the ROC curve, also its mean over classes: DeLong on the logit. Where (1 - AUC) x rows of the smaller
    class is under 4 (6, summed over classes): Gaffke's bound of the rows' placements, which counts a row of either kind
    that was not drawn and is ranked on the wrong side.
    Macro F1, average precision and r2, and with clusters the other macro averages: BCa bootstrap, with at least 20 rows
    of every class that counts.
    Against another model everything is paired by row: Tango's score interval for accuracy, top-k and recall (balanced
    accuracy and macro recall: MOVER over the classes' intervals), paired DeLong for the area, paired BCa for the rest.
    Where few rows differ between the models, BCa gives no bound and decides nothing.
    `roc_auc` and `average_precision` are about the positive class (`positive:`; default: the second of two); with more
    classes and no `positive:` they are means over one-vs-rest.
    `brier` is the squared error of the positive class's probability with two classes (0..1), and the sum over all
    classes with more (0..2). `log_loss` takes probabilities of 0 as 2e-16.
    A truth that ties with other classes counts as behind them in top-k.
    Several classes a row: micro F1 is that of all pairs of row and class, with BCa over rows; the share of rows without
    any error (`subset_accuracy`) and each class's recall are shares; the share of wrong pairs (`hamming_loss`) is a
    mean over rows; the rest is as with one class. Where a model gives no labels, a row gets each class from a
    probability of 0.5 on; with `decision_threshold`, always from that probability on.
    Text: where the model has `answer:`, the answer inside it (a text without one is wrong, and told), else all of it;
    against the nearest of a row's references: `exact_match` as a share (but for white space at the ends and
    Unicode's form, or with `normalize: squad`); `token_f1` (SQuAD's: no case, no punctuation, no articles) and ROUGE
    (rouge-score, F1, no stemming; it reads a to z and 0 to 9 only) as means; `bleu` and `chrf` of the corpus, 0 to 100,
    from sacrebleu's counts for each row, which are summed again for each resample; its signature is listed with the
    conditions. ROUGE, BLEU and chrF need the extra `text`.
    Several answers to a question, a row each: the chance that one of k drawn from its n answers is right (`pass_at`),
    `1 - C(n - c, k) / C(n, k)` with c right ones by `exact_match`, or that all of k are (`pass_all`), and their mean
    over questions, which are what is counted: 100 questions with eight answers each are 100. A question with fewer
    than k answers leaves the metric without a value.
    A model that gives several answers to a row (`samples` in `generate`, `orders` in `options`): every score is the
    mean over all of them, and the row is a cluster; how much of the variance is of drawing is told. One with several
    texts in `prompt: {user: [...]}`: what is required must hold for each of them.
    Boxes: matched by pycocotools, with its overlaps, its 101 recalls and its crowds; objects of any size, and for each
    class the 100 surest boxes in a picture. Bounds by the jackknife over 200 groups of pictures with at least 200
    pictures, 20 of them with objects of every class that counts. The pseudo-values are those of the area under the
    curve, as the 101 steps of recall would drown them; the bounds are moved apart by half a step. A class without
    objects has no value and counts in no mean. Where every picture has the same score, such as 0 or 1, there is no
    bound. Boxes need the extra `detection`.
    Masks: pixels of all pictures are summed by class; pixels with a true class of -1 are not judged, and a class
    without a pixel, true or predicted, counts in no mean. BCa over pictures, at least 50, 20 with every class that
    counts. Against another model, only classes count that have a value for both.
    Lists: a number for each query, and their mean; n is the number of queries. A row is relevant where its label is
    above 0, or is the positive class. `ndcg` has linear gains. Among rows with the same score the least relevant come
    first, so that a model with the same score for all finds nothing. Queries without a relevant row do not count, and
    are named.
    Rows that are equal in what the model reads and in the label (where it is not known what the model reads: in all but
    the key and what names a row) are one cluster, if they are a hundredth of all rows or more and not equal by chance.
    Chance makes rows of a few categories or whole numbers equal, but hardly numbers of several digits, times, long
    texts or pictures. So one row under a thousand ids is one row. The same holds for every check that scores answers or
    compares datasets.
    A metric that is 0/0 has no value and says so: the precision of a class that is never predicted, the recall of a
    class without rows, and the macro averages over them; a requirement over all classes is then not run. F1 of a class
    that has rows and is never predicted is 0.

    References: Clopper and Pearson, Biometrika 1934. Korn and Graubard, Survey Methodology 1998. Miettinen and
    Nurminen, Statistics in Medicine 1985. Zou and Donner, Statistics in Medicine 2008 (MOVER). Tango, Statistics in
    Medicine 1998. DeLong, DeLong and Clarke-Pearson, Biometrics 1988. Efron, JASA 1987 (BCa). Gaffke,
    Mathematical Methods of Statistics 2005 (means with limits). Rajpurkar and others,
    EMNLP 2016 (SQuAD). Lin, 2004 (ROUGE). Papineni and others, ACL 2002 (BLEU). Popovic, WMT 2015 (chrF). Post, WMT
    2018 (sacrebleu). Lin and others, ECCV 2014 (COCO). Tukey, Annals of Mathematical Statistics 1958 (jackknife).
    Jarvelin and Kekalainen, ACM TOIS 2002 (NDCG). Chen and others, 2021 (pass@k).

    ## What it cannot show
    How the model does on rows unlike these: see `shift` and `slices`. Whether the labels are right. Whether the test
    rows were seen in training: see `contamination`. Whether its probabilities are as right as they claim: see
    `calibration`. Whether a text is true or reads well: overlap with a reference shows neither.

    ## Example
    ```yaml
    - check: quality
      dataset: test
      require:
        - accuracy >= 95 %
        - recall(fraud) >= 80 %
        - accuracy >= baseline - 1 pp
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    each_template: ClassVar[bool] = True
    shows: ClassVar[tuple[Shows, ...]] = ("right answers",)
    metrics: ClassVar[tuple[Metric, ...]] = METRICS

    check: Literal["quality"] = "quality"
    dataset: DatasetName
    listed: Annotated[tuple[QualityMetric, ...], Effort()] = Field(
        (), alias="metrics", description="Metrics to compute besides the required ones; default: all that apply."
    )
    top_k: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Listing()] = Field(
        (5,), description="Values of k, besides the required ones."
    )
    positive: Annotated[str | None, ClassOfModel()] = Field(
        None, description="Class that the ROC and the decision threshold are about; default: the second of two."
    )
    decision_threshold: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Predict the positive one of two classes (with several labels a row: each class) where its "
        "probability is at least this.",
    )
    normalize: Literal["none", "squad"] = Field(
        "none", description="Texts before exact_match: as written, or as SQuAD: no case, punctuation and articles."
    )
    bleu_tokenize: Literal["13a", "intl", "char", "zh", "none"] = Field(
        "13a", description="How sacrebleu cuts texts for BLEU; zh for Chinese, char for other scripts without spaces."
    )
    query: str | None = Field(
        None,
        description="Column that says which rows are the candidates of one query, to be ranked by score; of "
        "texts, which are answers to one question.",
    )
    show_examples: Annotated[bool, Effort()] = Field(
        True, description="Show wrong rows, with their columns, in the report."
    )

    def needs(self) -> tuple[Need, ...]:
        """Predictions of the model and of every model that a requirement names."""
        models = dict.fromkeys((self.model, *self.baselines))
        columns = () if self.query is None else (self.query,)
        rows = (NeedRows(self.dataset, columns, label=True),) if self.show_examples or columns else ()
        return (*(NeedPredictions(self.dataset, model) for model in models), *rows)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass: a k that is no number, no queries, no package, or too few rows to show it."""
        metric, part = requirement.metric, requirement.part
        if (
            metric in ("top_k_accuracy", *AT_K, *OF_SAMPLES)
            and part is not None
            and not (part.isdecimal() and int(part) > 0)
        ):
            return f"{metric}({part}): k is a whole number of at least 1, such as {metric}(5)"
        if metric in RANKED_LISTS and self.query is None:
            return f"{metric} needs `query:`, the column that says which rows are the candidates of one query"
        missing = missing_package(metric) or missing_detection(metric)
        kind = kind_of(metric, beside_a_model=requirement.model is not None)
        sample = Sample(self.dataset, rows.get(self.dataset), confidence)
        return missing or never_shown(requirement, kind, sample)

    def missing_from(self, requirement: Requirement, model: Model) -> str | None:
        """Several answers to a question: rows of one, or samples of each."""
        metric, part = requirement.metric, requirement.part or "1"
        if metric not in OF_SAMPLES or self.query is not None:
            return None
        if model.samples == 1:
            return (
                f"{metric} needs several answers to a question: `query:`, the column that says which rows are of one, "
                "or `samples:` in the model's `generate`"
            )
        if part.isdecimal() and int(part) > model.samples:
            return f"{metric}({part}) needs {part} samples of each row, and `generate` asks for {model.samples}"
        return None

    def same(self, requirement: Requirement) -> Same | None:
        """Requirement as `compression` may make it too; None where it is not about what is lost to another model."""
        if requirement.model is None or requirement.factor != 1.0 or self.decision_threshold is not None:
            return None
        if requirement.metric not in ("accuracy", "top_k_accuracy", "mae") or requirement.op == "==":
            return None
        if (requirement.metric == "top_k_accuracy") != (requirement.part is not None):
            return None
        margin = -requirement.threshold if requirement.upper else requirement.threshold
        metric = requirement.metric if requirement.part is None else f"{requirement.metric}({requirement.part})"
        return Same(metric, self.dataset, self.model, requirement.model, requirement.op in ("<", ">"), margin)

    def row_scores(self, answers: Predictions) -> RowScores | None:
        """Scores of texts, by the first metric that is required and is a mean over rows."""
        scores: RowScores | None = self.room("measure").row_scores(self, answers)
        return scores
