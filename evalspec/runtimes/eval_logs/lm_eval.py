"""``samples_*.jsonl`` of lm-evaluation-harness, which ``--log_samples`` writes.

Fields as in lm-eval 0.4.13: `SampleResult` of `lm_eval/result_schema.py`, written by `save_results_samples` of
`lm_eval/loggers/evaluation_tracker.py`, which makes text of every number among the responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from evalspec.errors import InputError
from evalspec.runtimes.eval_logs.log import AnswerLog, json_of, read_text, records_of

LogScore = Literal["sum", "per_byte"]
UNCONDITIONAL = "acc_mutual_info"
"""Metric for which every option is asked a second time, without the question."""


def read_lm_eval(path: Path, shown: str, *, filter_name: str | None, score: LogScore) -> AnswerLog:
    """Answers of a file of samples, one for each document.

    Args:
        path: The file.
        shown: Its name, for sentences.
        filter_name: The filter whose answers count; None: there is only one.
        score: What the probability of an option is made of: its log-likelihood, or that for each byte of it.

    Raises:
        InputError: Not such a file, several filters, several responses to a question, or a task whose answer is
            neither a text nor an option.
    """
    lines = [line for line in read_text(path, shown).split("\n") if line.strip()]
    every = records_of([json_of(line, f"line {number:,} of {shown!r}") for number, line in enumerate(lines, 1)], shown)
    samples = _of_filter(every, shown, filter_name)
    answers = [_responses(sample, shown) for sample in samples]
    claim = f"lm-eval, filter {samples[0]['filter']}; it names no model"
    if all(isinstance(one, str) for several in answers for one in several):
        texts = [_text(sample, several, shown) for sample, several in zip(samples, answers, strict=True)]
        return AnswerLog(samples, {"text": texts}, claim)
    options = [_options(sample, shown) for sample in samples]
    scores = [_scores(several, len(texts), shown) for several, texts in zip(answers, options, strict=True)]
    return AnswerLog(samples, {"probabilities": _shares(scores, options, score, shown)}, claim, options)


def _of_filter(samples: Sequence[Mapping[str, Any]], shown: str, wanted: str | None) -> list[Mapping[str, Any]]:
    """The samples of one filter: there is one for each document and filter."""
    for sample in samples:
        for name in ("filter", "filtered_resps", "resps", "arguments"):
            if name not in sample:
                raise InputError(
                    f"{shown!r} has a line without {name!r}, so it is not a file of lm-eval's samples",
                    remedy="`--log_samples` writes samples_<task>_<date>.jsonl",
                )
    filters = tuple(dict.fromkeys(str(sample["filter"]) for sample in samples))
    if wanted is None and len(filters) > 1:
        raise InputError(
            f"{shown!r} has answers of {len(filters)} filters, and the spec does not say which of them counts",
            choices=filters,
            remedy="add `filter:` to the model, the one chosen before the results were seen",
        )
    if wanted is not None and wanted not in filters:
        raise InputError(f"{shown!r} has no answers of the filter {wanted!r}", choices=filters)
    return [sample for sample in samples if wanted is None or str(sample["filter"]) == wanted]


def _responses(sample: Mapping[str, Any], shown: str) -> list[Any]:
    """Responses to the requests of a sample, as the filter left them."""
    made, left = sample["resps"], sample["filtered_resps"]
    if not isinstance(made, list) or not isinstance(left, list) or not made or not left:
        raise InputError(f"{shown!r} has a sample without responses")
    most = max(len(one) if isinstance(one, list) else 1 for one in made)
    if most > 1:
        raise InputError(
            f"{shown!r} has {most} responses to one request (`repeats`), and the filter chooses among them",
            remedy="log one response per question",
        )
    return left


def _text(sample: Mapping[str, Any], responses: Sequence[str], shown: str) -> str:
    """The text that was generated; the arguments of a generation are the prompt and its settings."""
    first = sample["arguments"].get("gen_args_0") if isinstance(sample["arguments"], Mapping) else None
    if len(responses) != 1 or not isinstance(first, Mapping) or not isinstance(first.get("arg_1"), Mapping):
        raise InputError(f"{shown!r} belongs to a task that neither generates a text nor chooses an option")
    return responses[0]


def _options(sample: Mapping[str, Any], shown: str) -> list[str]:
    """Texts of the options, without the space before them."""
    arguments = sample["arguments"]
    values = [one.get("arg_1") for one in arguments.values()] if isinstance(arguments, Mapping) and all(
        isinstance(one, Mapping) for one in arguments.values()
    ) else []  # fmt: skip
    if not values or not all(isinstance(one, str) for one in values):
        raise InputError(f"{shown!r} has log-likelihoods, but a sample without the texts that they belong to")
    metrics = sample.get("metrics")
    if isinstance(metrics, list) and UNCONDITIONAL in metrics:
        values = values[: len(values) // 2]
    return [str(one).lstrip() for one in values]


def _scores(responses: Sequence[Any], options: int, shown: str) -> list[float]:
    """Log-likelihood of each option."""
    if options < 2:
        raise InputError(f"{shown!r} has one log-likelihood per question, so nothing was chosen")
    try:
        scores = [float(one[0]) for one in responses[:options]]
    except (TypeError, ValueError, LookupError) as error:
        raise InputError(f"{shown!r} has a response that is not a log-likelihood: {str(error)[:80]}") from error
    if len(scores) < options:
        raise InputError(f"{shown!r} has a sample with {options} options and {len(scores)} log-likelihoods")
    return scores


def _shares(
    scores: Sequence[Sequence[float]], options: Sequence[Sequence[str]], score: LogScore, shown: str
) -> list[list[float]]:
    """Softmax over the options of each question, shape (n, C); 0 where a question has fewer than C."""
    import numpy as np

    width = max(map(len, scores))
    logs = np.array([[*one, *[-np.inf] * (width - len(one))] for one in scores])
    if score == "per_byte":
        logs /= np.array(
            [[max(len(text.encode()), 1) for text in [*one, *[""] * (width - len(one))]] for one in options]
        )
    top = logs.max(axis=1, keepdims=True)
    if not np.isfinite(top).all():
        raise InputError(f"{shown!r} has a question whose options have no finite log-likelihood")
    if all(len(set(one)) == 1 for one in scores):
        raise InputError(
            f"{shown!r} has the same log-likelihood for every option of each question, so they were not computed"
        )
    shares = np.exp(logs - top)
    listed: list[list[float]] = (shares / shares.sum(axis=1, keepdims=True)).tolist()
    return listed
