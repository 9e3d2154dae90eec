"""Which models a verdict rests on, and that one of them is not the one that is to ship."""

from __future__ import annotations

from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.subject import CANDIDATE, LOGGED, UNANSWERED, subject_model
from evalspec.evidence.words import and_list, plural, verb


def models_judged(record: Record) -> list[str]:
    """Sentences: that the models which blocking requirements are about are not the subject alone."""
    asked = {test.name for check in record.checks for test in check.tests if test.severity == "require"}
    asked -= {waiver.of for waiver in record.waivers if waiver.expires >= record.started[:10]}
    blocking = [check for check in record.checks if any(test.name in asked for test in check.tests)]
    about = {name for check in blocking for name in _judged(check)}
    named = {*record.models_named, *(model.name for model in record.models)}
    subject = subject_model(name for check in record.checks for name in _judged(check)) if about else None
    others = f"they are about {and_list(sorted(about))}" if about else "they are about data alone"
    if CANDIDATE in named and CANDIDATE not in about:
        return [f"no blocking requirement is about {CANDIDATE}, which the spec names: {others}"]
    if len(about) > 1:
        return [
            f"the requirements are about several models ({', '.join(sorted(about))}), and only one of them is the "
            "subject"
        ]
    if subject is not None and subject not in about:
        return [f"no blocking requirement is about {subject}, which is the subject: {others}"]
    return []


def logged_answers(record: Record) -> list[str]:
    """Sentences on answers that were read in the log of a harness: what it cannot prove, and what is missing in it."""
    details = [(model.name, name, value) for model in record.models for name, value in model.details.items()]
    lines = [
        f"answers of {model} on {name.removeprefix(LOGGED)} come from a log ({claim}), which cannot show the weights, "
        "the precision or the time they were made with"
        for model, name, claim in details
        if name.startswith(LOGGED)
    ]
    return lines + [
        f"{plural(count, 'sample')} of {model} on {name.removeprefix(UNANSWERED)} ended without an answer, "
        f"and {verb(count, 'counts', 'count')} as wrong"
        for model, name, count in details
        if name.startswith(UNANSWERED) and isinstance(count, int) and count
    ]


def _judged(check: CheckRecord) -> tuple[str, ...]:
    """Models that its requirements are about; those that only describe the rows of a dataset are none."""
    scored = check.conditions.get("predictions of")
    return tuple(
        name
        for name in check.models
        if name not in check.baseline_models and (check.dimension != "data" or name == scored)
    )
