"""Likelihoods beside those of lm-evaluation-harness, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.language.likelihoods import Windows
from evalspec.language.parts import Access
from evalspec.runtimes.transformers import Transformers
from evalspec.runtimes.transformers_model.choice import likelihoods, text_pair
from evalspec.runtimes.transformers_model.loaded import LoadedLanguageModel
from tests.causal_models import CONTEXT, documents, hardly_trained
from tests.runtimes.environments import environment

pytestmark = [pytest.mark.slow, pytest.mark.served, pytest.mark.timeout(1800)]

PACKAGES = ("torch==2.13.0", "transformers==5.23.0", "accelerate", "lm_eval==0.4.13")
SCRIPT = """
import json, sys
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

asked = json.loads(open(sys.argv[1]).read())
model, bare = (
    HFLM(pretrained=asked["folder"], device="cpu", dtype="float32", batch_size=4, **options)
    # Texts get a begin token in any case: with the tokenizer's own they would have two, and the second be scored.
    for options in ({}, {"add_bos_token": False})
)
ask = lambda kind, rows: [Instance(request_type=kind, doc={}, arguments=tuple(row), idx=0) for row in rows]
print(json.dumps({
    "pairs": [one[0] for one in model.loglikelihood(ask("loglikelihood", asked["pairs"]))],
    "texts": bare.loglikelihood_rolling(ask("loglikelihood_rolling", [[text] for text in asked["texts"]])),
}))
"""


def theirs(folder: Path, pairs: list[tuple[str, str]], texts: list[str], tmp_path: Path) -> dict[str, list[float]]:
    """Logarithms as lm-evaluation-harness has them."""
    home = environment("lm_eval", *PACKAGES)
    (tmp_path / "asked.json").write_text(json.dumps({"folder": str(folder), "pairs": pairs, "texts": texts}))
    (tmp_path / "ask.py").write_text(SCRIPT)
    done = subprocess.run(
        [home / "bin" / "python", "ask.py", "asked.json"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return said


def load(folder: Path, **changes: Any) -> LoadedLanguageModel:
    return Transformers(path=folder.name, **changes).load(Access(folder.parent), threads=1)


@pytest.mark.parametrize("name", ["fp32", "other_tokens"])
def test_options_and_texts_have_their_likelihoods(
    name: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    folder = hardly_trained(tmp_path_factory) / name
    words = [text.split() for text in documents(24, longest=200)]
    options = [(" ".join(one[:8]), " ".join(one[8:14])) for one in words]
    options += [("é☃ naïve", "café"), ("x ", "y"), ("1 +", "1")]
    texts = [text[: CONTEXT - 8] for text in documents(20)]
    # Theirs is given the space that stands between the two.
    said = theirs(folder, [(context.rstrip(), f" {after}") for context, after in options], texts, tmp_path)
    asked = {"column": "c", "show": "none", "score": "sum"}
    model = load(folder, api="completions", prompt={"user": "{question}"}, options=asked)
    assert model.prompt is not None
    parts = [text_pair(model, model.prompt, {"question": context}, after) for context, after in options]
    np.testing.assert_allclose(likelihoods(model, parts), said["pairs"], rtol=1e-4)
    own = model.likelihoods(texts, Windows(CONTEXT - 1, CONTEXT - 1), None, lambda *_: None)
    np.testing.assert_allclose(-own.nll, said["texts"], rtol=1e-4)
