"""Causal language models as folders that transformers reads: weights, tokenizer, chat template."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import InputError, Problem
from evalspec.language.parts import Access
from evalspec.language.units import custom_error
from evalspec.pipeline.model_fields import usable_cpus
from evalspec.pipeline.options import CHOSEN
from evalspec.pipeline.prompt import Generate, Prompt
from evalspec.pipeline.prompt_places import unplaced
from evalspec.pipeline.prompted import PromptedModel
from evalspec.pipeline.untrusted_code import first_line, need_trust
from evalspec.runtimes.guards.observe import precision_of
from evalspec.runtimes.torch import DTYPES, device_of
from evalspec.runtimes.transformers_model.folder import hidden_code, need_language_model, parts_of, vocabulary
from evalspec.runtimes.transformers_model.generation_defaults import defaults, end_tokens
from evalspec.runtimes.transformers_model.integers import SAID, IntegerForm, integer_form, load_integers

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell
    from evalspec.runtimes.transformers_model.loaded import LoadedLanguageModel

WEIGHT_AXES = 2


class Transformers(PromptedModel):
    """A folder with ``config.json``, ``*.safetensors``, ``tokenizer.json`` and, where there is one, a chat template.

    It gives texts likelihoods, for `likelihood`. With ``prompt`` and ``generate`` it writes a text about each row, and
    the times of its tokens are measured as those of a server that streams: one row after the other where it is timed,
    ``batch`` rows together for quality. The prompt goes through the tokenizer's own chat template; of what
    ``generation_config.json`` says only the tokens that end a text are used. Nothing is looked up on a hub. Weights
    that are pickles, and folders that name code of their own (``auto_map``), need trust. Weights that are integers with
    a scale for each row (``int-quantized`` of compressed-tensors) are multiplied as integers, on the CPU.
    """

    extra_name: ClassVar[str] = "transformers"
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    gives_likelihoods: ClassVar[bool] = True

    kind: Literal["transformers"] = "transformers"
    path: str = Field(min_length=1, description="The model's folder, relative to the spec's folder.")
    dtype: Literal["fp32", "fp16", "bf16"] | None = Field(
        None, description="Data type of computation; default: the type of its weights."
    )
    attention: Literal["eager", "sdpa"] | None = Field(
        None, description="Implementation of attention; default: transformers' choice for this model."
    )
    api: Literal["chat", "completions"] = Field(
        "chat",
        description="chat: through the tokenizer's chat template; completions: a plain text to continue.",
    )
    prompt: Prompt | None = Field(None, description="Prompt for a row; default: likelihoods only.")
    generate: Generate | None = Field(None, description="How an answer is generated.")

    @model_validator(mode="after")
    def _is_asked_whole(self) -> Self:
        problem = _problem(self)
        if problem is not None:
            raise custom_error(problem)
        return self

    @property
    def answers_rows(self) -> bool:
        """With a prompt."""
        return self.prompt is not None

    @property
    def writes_slowly(self) -> bool:
        """Token after token."""
        return self.prompt is not None

    def files(self, access: Access) -> tuple[Path, ...]:
        return tuple(path for files in parts_of(access.path(self.path), self.path).values() for path in files)

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        """Weights, configuration, tokenizer and chat template: a template is part of the subject."""
        return {**parts_of(access.path(self.path), self.path), **self.example_files(access)}

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
        need_language_model(folder, self.path)
        form = integer_form(folder, self.path)
        if form is not None and self.device != "cpu":
            raise InputError(
                f"{self.path!r} has integer weights, which are multiplied on the CPU only", remedy="set device: cpu"
            )
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import AutoTokenizer
        from transformers.utils import logging

        from evalspec.runtimes.transformers_model.generation import Generator
        from evalspec.runtimes.transformers_model.loaded import LoadedLanguageModel
        from evalspec.runtimes.transformers_model.prompts import beginning
        from evalspec.runtimes.transformers_model.rows import OUTPUTS

        logging.disable_progress_bar()
        threads = threads or usable_cpus()
        torch.set_num_threads(threads)
        place = device_of(self.device)
        told = {"local_files_only": True, "trust_remote_code": access.trust}
        try:
            coder = AutoTokenizer.from_pretrained(str(folder), **told)
            module = _module(self, folder, form, access)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"transformers can't load {self.path!r}: {type(error).__name__}: {first_line(error)}"
            ) from error
        if not getattr(coder, "is_fast", False):
            raise InputError(
                f"the tokenizer of {self.path!r} does not give the positions of its tokens in a text",
                remedy="save it as tokenizer.json",
            )
        _same_tokens(self.path, module, coder)
        module = module.eval().to(place)
        longest = getattr(module.config.get_text_config(), "max_position_embeddings", None)
        longest = longest if isinstance(longest, int) and longest > 0 else None
        observed = _observed(self, module, coder, threads) | _integers(form, module)
        generator, prompt = None, self.with_examples(access).prompt
        if prompt is not None:
            first, twice = beginning(self.api, prompt, coder)
            observed |= {"first_ids": " ".join(map(str, first)), "begins_twice": twice, **prompt.facts()}
        if self.generate is not None:
            ends = end_tokens(module, coder)
            observed |= {"streams": True, "end_tokens": " ".join(map(str, ends)), "defaults_not_used": defaults(module)}
            generator = Generator(module, coder, place, self.generate, ends, longest)
        given = {} if self.prompt is None else OUTPUTS if self.options is None else CHOSEN
        return LoadedLanguageModel(
            observed=observed,
            input_names=self.texts_taken,
            output_names=tuple(given),
            default_outputs=given,
            options=self.options,
            options_input=self.options_input,
            module=module,
            coder=coder,
            place=place,
            batch=self.batch,
            longest=longest,
            vocabulary=int(module.get_output_embeddings().weight.shape[0]),
            api=self.api,
            prompt=prompt,
            generator=generator,
        )


def _module(model: Transformers, folder: Path, form: IntegerForm | None, access: Access) -> Any:
    """The model with its weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    told = {"local_files_only": True, "trust_remote_code": access.trust}
    dtype = "auto" if model.dtype is None else getattr(torch, DTYPES[model.dtype])
    if form is None:
        return AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, attn_implementation=model.attention,
            use_safetensors=None if access.trust else True, **told,
        )  # fmt: skip
    config = AutoConfig.from_pretrained(str(folder), **told)
    kept = getattr(config, "dtype", None) or torch.float32
    delattr(config, SAID)
    module = AutoModelForCausalLM.from_config(
        config, dtype=kept if dtype == "auto" else dtype, attn_implementation=model.attention,
        trust_remote_code=access.trust,
    )  # fmt: skip
    load_integers(parts_of(folder, model.path)["weights"], module, form, model.path)
    return module


def _problem(model: Transformers) -> Problem | None:
    if model.prompt is None and model.generate is None:
        if "api" in model.model_fields_set:
            return Problem("`api` needs a `prompt`, and there is none", remedy="add `prompt:`, or remove `api`")
        return None
    if model.generate is None and model.options is None:
        remedy = "such as generate: {max_tokens: 256}; a longer answer is cut and counts as truncated"
        return Problem("`prompt` needs `generate:`", remedy=remedy)
    if model.prompt is None:
        return Problem("`generate` needs `prompt:`", remedy='such as prompt: {user: "{question}"}')
    names = model.prompt.inputs
    if not names:
        return Problem("the `prompt` has no place for an input", remedy="put {name} into `user`")
    return unplaced(model.inputs, model.texts_taken, "prompt")


def _same_tokens(path: str, module: Any, coder: Any) -> None:
    """Stop where the tokenizer makes tokens that the model has no embedding of.

    Raises:
        InputError: It does.
    """
    tokens, known = max(coder.get_vocab().values(), default=-1) + 1, int(module.get_input_embeddings().weight.shape[0])
    if tokens > known:
        raise InputError(
            f"the tokenizer of {path!r} has {tokens:,} tokens, but the model embeds {known:,}",
            remedy="save the tokenizer there that the model was trained with",
        )


def _integers(form: IntegerForm | None, module: Any) -> dict[str, Cell]:
    """Facts on a model of integers; none of another."""
    if form is None:
        return {}
    precision = precision_of(_weights(module))
    return {
        "products": "int8 by int8, summed as int32",
        "bits_of_weights": form.bits,
        "precision": form.precision if precision == "int8" else precision,
    }


def _observed(model: Transformers, module: Any, coder: Any, threads: int) -> dict[str, Cell]:
    import torch
    import transformers

    return {
        "precision": precision_of(_weights(module)),
        "device": model.device,
        "threads": threads,
        "framework": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "architecture": type(module).__name__,
        "parameters": sum(tensor.numel() for tensor in module.parameters()),
        "attention": getattr(module.config, "_attn_implementation", None),
        "begin_token": coder.bos_token,
        "chat_template": coder.chat_template is not None,
    }


def _weights(module: Any) -> dict[str, int]:
    """Weights by number type."""
    counts: dict[str, int] = {}
    for tensor in module.parameters():
        if tensor.dim() >= WEIGHT_AXES:
            name = str(tensor.dtype).removeprefix("torch.")
            counts[name] = counts.get(name, 0) + tensor.numel()
    return counts
