"""Language models as GGUF files: llama.cpp answers, in the process of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import InputError, Problem
from evalspec.evidence.record import TEMPLATE
from evalspec.language.parts import Access
from evalspec.language.units import Duration, custom_error
from evalspec.pipeline.model_fields import FileModel, usable_cpus
from evalspec.pipeline.prompt import Generate, Prompt
from evalspec.pipeline.prompt_places import unplaced
from evalspec.pipeline.prompted import PromptedModel
from evalspec.runtimes.http_client.loaded import LoadedHttp, load
from evalspec.runtimes.http_client.openai import MODELS
from evalspec.runtimes.http_client.readiness import told

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell

MAGIC = b"GGUF"
PRECISIONS = (("F32", "fp32"), ("F16", "fp16"), ("BF16", "bf16"), ("Q8", "int8"), ("Q4", "int4"), ("IQ4", "int4"))
"""Beginnings of names of file types: what most of their numbers are."""
CONNECTIONS = 2
"""Beside those that answer: one asks whether it is ready."""


class Gguf(PromptedModel, FileModel):
    """A language model in one file of llama.cpp's format, answered by llama.cpp itself.

    Its server runs inside the process that measures, on this machine alone, and is asked as ``protocol: openai`` asks:
    ``prompt`` says what is sent about a row, ``generate`` how the answer is generated. The file's own chat template is
    used.
    No prompt is remembered from one request to the next, and what samples beside ``generate`` is switched off.
    """

    extra_name: ClassVar[str] = "gguf"
    packages: ClassVar[tuple[str, ...]] = ("xllamacpp", "httptools")
    suffixes: ClassVar[tuple[str, ...]] = (".gguf",)

    kind: Literal["gguf"] = "gguf"
    api: Literal["chat", "completions"] = Field("chat", description="chat, or completions of plain text.")
    prompt: Prompt = Field(description="What is sent for a row.")
    generate: Generate | None = Field(None, description="How an answer is generated; required, except with `options`.")
    context: int | None = Field(
        None, ge=8, le=10_000_000, description="Tokens of prompt and answer together; default: the model's own."
    )
    slots: int = Field(1, ge=1, le=256, description="Number of requests answered in parallel.")
    timeout_s: Duration = Field(600.0, gt=0, alias="timeout", description="Timeout for an answer.")

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        names = self.prompt.inputs
        problem = None if names else Problem("the `prompt` has no place for an input", remedy="put {name} into `user`")
        problem = problem or unplaced(self.inputs, self.texts_taken, "prompt")
        if problem is None and self.generate is None and self.options is None:
            remedy = "such as generate: {max_tokens: 256}; a longer answer is cut and counts as truncated"
            problem = Problem("`kind: gguf` needs `generate:`", remedy=remedy)
        if problem is None and self.options is not None and self.options.score != "letter":
            message = f"`score: {self.options.score}` needs the likelihood of a text, which llama.cpp does not report"
            problem = Problem(
                message, remedy="set `score: letter`; `kind: transformers` computes the likelihood of texts"
            )
        if problem is not None:
            raise custom_error(problem)
        return self

    @model_validator(mode="after")
    def _runs_on_the_cpu(self) -> Self:
        if self.device != "cpu":
            raise ValueError(f"device {self.device!r}: llama.cpp runs on the cpu only, as its wheel is built")
        return self

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        return {**super().answers_from(access), **self.example_files(access)}

    @property
    def writes_slowly(self) -> bool:
        """Language models do."""
        return True

    def load(self, access: Access, *, threads: int | None = None) -> LoadedGguf:
        """Load the file, and ask llama.cpp what it holds.

        Raises:
            InputError: It is no GGUF file, or llama.cpp can't load it.
        """
        path = self.model_file(access)
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise InputError(f"{self.path!r} is not a GGUF file: it does not begin with the letters GGUF")
        threads = threads or usable_cpus()
        engine = _engine(self, path, threads)
        loaded = load(_served(self.with_examples(access), engine.listening_address), {})
        # llama.cpp ends a connection after each stream, without saying so.
        loaded.connection.keeping.keeps = False
        meta = _meta(loaded)
        trained = meta.get("n_ctx_train")
        known = {one.name: getattr(loaded, one.name) for one in fields(LoadedHttp)}
        known["observed"] = _observed(meta, threads, self.slots) | _prompt_facts(loaded)
        if self.context is not None and isinstance(trained, int) and self.context > self.slots * trained:
            loaded.close()
            raise InputError(
                f"a `context` of {self.context:,} tokens is more than the {trained:,} that {self.path!r} was trained "
                "with",
                remedy=f"set context: {trained}, or leave it out",
            )
        return LoadedGguf(**known, engine=engine)


@dataclass(kw_only=True)
class LoadedGguf(LoadedHttp):
    """A server of llama.cpp in this process."""

    engine: Any

    def close(self) -> None:
        """Let the connections and the engine go."""
        super().close()
        self.engine = None


def _engine(model: Gguf, path: Path, threads: int) -> Any:
    """A server on a free port of this machine.

    Raises:
        InputError: llama.cpp can't load the file.
    """
    import xllamacpp

    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(path)
    wanted.hostnames, wanted.port = ["127.0.0.1"], 0
    wanted.n_parallel, wanted.n_threads_http = model.slots, model.slots + CONNECTIONS
    wanted.n_ctx = model.slots * (model.context or 0)
    wanted.n_gpu_layers = 0
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
    wanted.cache_prompt, wanted.cache_ram_mib = False, 0
    wanted.sampling.top_k, wanted.sampling.top_p, wanted.sampling.min_p = 0, 1.0, 0.0
    wanted.verbosity = -1
    try:
        return xllamacpp.Server(wanted)
    except RuntimeError as error:
        raise InputError(
            f"llama.cpp can't load {model.path!r}",
            remedy="check that the file is complete, that llama.cpp supports its architecture, and that there is "
            "enough memory",
        ) from error


def _served(model: Gguf, address: str) -> Any:
    """The server as a spec would have it."""
    from evalspec.runtimes.http import Http

    said = {"kind": "http", "protocol": "openai", "url": f"{address}/v1", "api": model.api, "prefix": "as_is"}
    same = {name: getattr(model, name) for name in ("prompt", "generate", "options", "inputs", "outputs")}
    server = Http.model_validate(said | {name: value for name, value in same.items() if value is not None})
    return server.model_copy(update={"timeout_s": model.timeout_s})


def _meta(loaded: LoadedHttp) -> dict[str, Any]:
    """Facts that llama.cpp tells of the file."""
    listed = told(loaded.model, {}, loaded.connection, MODELS).get("data")
    first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
    meta = first.get("meta")
    return meta if isinstance(meta, dict) else {}


def _prompt_facts(loaded: LoadedHttp) -> dict[str, Cell]:
    prompt = loaded.model.prompt
    template = {name: value for name, value in loaded.observed.items() if name == TEMPLATE}
    return template if prompt is None else {**prompt.facts(), **template}


def _observed(meta: dict[str, Any], threads: int, slots: int) -> dict[str, Cell]:
    from importlib.metadata import version

    file_type = str(meta.get("ftype", ""))
    precision = next((name for begin, name in PRECISIONS if file_type.upper().startswith(begin)), None)
    found: dict[str, Cell] = {
        "framework": f"llama.cpp (xllamacpp {version('xllamacpp')})",
        "precision": precision,
        "file_type": file_type or None,
        "device": "cpu",
        "threads": threads,
        "slots": slots,
        "streams": True,
    }
    for name, key in (("parameters", "n_params"), ("context", "n_ctx"), ("vocabulary", "n_vocab")):
        if isinstance(meta.get(key), int):
            found[name] = meta[key]
    return found
