"""Causal language models as folders that transformers reads: weights, tokenizer, chat template."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.model_fields import RuntimeModel, usable_cpus
from evalspec.pipeline.untrusted_code import first_line, need_trust
from evalspec.runtimes.guards.observe import precision_of
from evalspec.runtimes.torch import DTYPES, device_of
from evalspec.runtimes.transformers_model.folder import hidden_code, parts_of, vocabulary

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell
    from evalspec.runtimes.transformers_model.loaded import LoadedLanguageModel

WEIGHT_AXES = 2


class Transformers(RuntimeModel):
    """A folder with ``config.json``, ``*.safetensors``, ``tokenizer.json`` and, where there is one, a chat template.

    It gives texts likelihoods, for `likelihood`; it answers no rows yet. Nothing is looked up on a hub. Weights that
    are pickles, and folders that name code of their own (``auto_map``), need trust.
    """

    extra_name: ClassVar[str] = "transformers"
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    answers_rows: ClassVar[bool] = False
    gives_likelihoods: ClassVar[bool] = True

    kind: Literal["transformers"] = "transformers"
    path: str = Field(min_length=1, description="The model's folder, from the spec's folder.")
    dtype: Literal["fp32", "fp16", "bf16"] | None = Field(
        None, description="What it computes in; default: as its weights are stored."
    )
    attention: Literal["eager", "sdpa"] | None = Field(
        None, description="How attention is computed; default: what transformers takes for this model."
    )

    def files(self, access: Access) -> tuple[Path, ...]:
        return tuple(path for files in self.answers_from(access).values() for path in files)

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        """Weights, configuration, tokenizer and chat template: a template is part of the subject."""
        return parts_of(access.path(self.path), self.path)

    def may_hide_code(self, access: Access) -> str | None:
        """Weights that are pickles, or code that the folder names."""
        return hidden_code(access.path(self.path), self.path)

    def vocabulary(self, access: Access) -> str | None:
        return vocabulary(access.path(self.path))

    def load(self, access: Access, *, threads: int | None = None) -> LoadedLanguageModel:
        hidden = self.may_hide_code(access)
        if hidden is not None:
            need_trust(access, hidden)
        folder = access.path(self.path)
        parts_of(folder, self.path)
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        from evalspec.runtimes.transformers_model.loaded import LoadedLanguageModel

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        threads = threads or usable_cpus()
        torch.set_num_threads(threads)
        place = device_of(self.device)
        told = {"local_files_only": True, "trust_remote_code": access.trust}
        try:
            coder = AutoTokenizer.from_pretrained(str(folder), **told)
            module = AutoModelForCausalLM.from_pretrained(
                str(folder),
                dtype="auto" if self.dtype is None else getattr(torch, DTYPES[self.dtype]),
                attn_implementation=self.attention,
                use_safetensors=None if access.trust else True,
                **told,
            )
        except Exception as error:
            raise InputError(
                f"transformers can't load {self.path!r}: {type(error).__name__}: {first_line(error)}"
            ) from error
        if not getattr(coder, "is_fast", False):
            raise InputError(
                f"the tokenizer of {self.path!r} does not tell where in a text its tokens stand",
                remedy="save it as tokenizer.json",
            )
        module = module.eval().to(place)  # type: ignore[no-untyped-call]
        longest = getattr(module.config.get_text_config(), "max_position_embeddings", None)
        return LoadedLanguageModel(
            observed=_observed(self, module, coder, threads),
            input_names=(),
            output_names=(),
            module=module,
            coder=coder,
            place=place,
            batch=self.batch,
            longest=longest if isinstance(longest, int) and longest > 0 else None,
            vocabulary=int(module.get_output_embeddings().weight.shape[0]),
        )


def _observed(model: Transformers, module: Any, coder: Any, threads: int) -> dict[str, Cell]:
    import torch
    import transformers

    counts: dict[str, int] = {}
    for tensor in module.parameters():
        if tensor.dim() >= WEIGHT_AXES:
            name = str(tensor.dtype).removeprefix("torch.")
            counts[name] = counts.get(name, 0) + tensor.numel()
    return {
        "precision": precision_of(counts),
        "device": model.device,
        "threads": threads,
        "framework": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "architecture": type(module).__name__,
        "parameters": sum(tensor.numel() for tensor in module.parameters()),
        "attention": getattr(module.config, "_attn_implementation", None),
        "begin_token": coder.bos_token,
        "chat_template": coder.chat_template is not None,
    }
