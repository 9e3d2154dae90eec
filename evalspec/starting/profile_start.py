"""The start of a profile, with the model and the rows that were seen in it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from evalspec.language.registry import Registry
from evalspec.loading.scan_folder import Finding, Looks, plain
from evalspec.loading.starter import profile_template
from evalspec.starting.sketch import Sketch
from evalspec.starting.writing import flow, models_lines

PLACES = ("test", "train", "traffic", "elsewhere")
MODELS = re.compile(r"^models:\n.*?(?=^datasets:)", re.DOTALL | re.MULTILINE)


def profile_text(sketch: Sketch, profile: str, folder: Path, registry: Registry) -> str:
    """A new spec for a profile; what is not there is still named in it.

    Args:
        sketch: What was seen.
        profile: Name of the profile.
        folder: Where the spec will stand.
        registry: The kinds there are.

    Raises:
        SpecError: There is no such profile; with the choices.
    """
    text, _ = profile_template(profile, folder, registry, _finding(sketch))
    return MODELS.sub(lambda _: "\n".join(models_lines(sketch)) + "\n\n", text, count=1)


def _finding(sketch: Sketch) -> Finding:
    model, test = sketch.model, sketch.test
    path = str(model.fields.get("path") or model.fields.get("url"))
    models = {"candidate": (str(model.fields["kind"]), path), "baseline": (str(model.fields["kind"]), "baseline")}
    if sketch.baseline is not None:
        fields = sketch.baseline.fields
        models["baseline"] = (str(fields["kind"]), str(fields.get("path") or fields.get("url")))
    looks = {role: Looks("fp32", {}) for role in models}
    train = sketch.datasets.get("train")
    return Finding(
        models=models,
        datasets={role: ("parquet", f"{role}.parquet") for role in PLACES}
        | {role: (str(rows.fields["kind"]), str(rows.fields["path"])) for role, rows in sketch.datasets.items()},
        found=frozenset(("candidate", *sketch.datasets, *(("baseline",) if sketch.baseline is not None else ()))),
        label=plain(test.label or "label"),
        text=next(iter(model.fields.get("inputs", {}).values()), "question")
        if "prompt" in model.fields
        else "question",
        looks=looks,
        doubles=False,
        columns=replace(test.roles, classes=model.classes or test.values),
        trained=frozenset(train.columns if train is not None else ()),
        more={role: _more(sketch, role) for role in sketch.datasets},
    )


def _more(sketch: Sketch, role: str) -> str:
    """Fields of a dataset that the start does not write itself."""
    fields = sketch.dataset_fields(role)
    own = {key: value for key, value in fields.items() if key not in ("kind", "path", "label", "key", "cluster")}
    return "".join(f", {key}: {flow(value)}" for key, value in own.items())
