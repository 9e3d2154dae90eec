"""Base of the kinds of model: a runtime is one class of this, in a file of ``evalspec/runtimes``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from pydantic import Field, StringConstraints, field_validator

from evalspec.errors import Problem
from evalspec.language.parts.dataset import Dataset
from evalspec.language.parts.part import Access, Part
from evalspec.language.units import custom_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell


OptionScore = Literal["letter", "sum", "per_byte", "per_token", "pmi"]

OutputName = Literal[
    "logits", "probabilities", "label", "value", "lower", "upper", "text", "finish_reason", "tokens", "boxes", "scores",
    "mask", "embedding",
]  # fmt: skip


class Model(Part):
    """A model under test. Its kind is served by a runtime: one file of ``evalspec/runtimes``."""

    extra_name: ClassVar[str] = ""
    """The extra of the distribution that this kind needs; empty: none."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Import names that must be there."""
    timed: ClassVar[bool] = True
    """It can be run, so it can be timed."""
    gives_likelihoods: ClassVar[bool] = False
    """It gives each token of a text a likelihood."""
    needs_trust: ClassVar[bool] = False
    """It always runs code that the spec names."""
    served: ClassVar[bool] = False
    """It is a server, so no file here shows what it is: its digest is as stated."""
    remembered: ClassVar[bool] = False
    """Its answers were kept by an earlier run: nothing that was timed then is a baseline for what is timed now."""
    stateless: ClassVar[bool] = False
    """What it runs for a query hangs neither on the queries before nor on how many rows those had."""
    in_memory: ClassVar[bool] = False
    """It was an object of the calling program, so no file that ships is judged."""
    inspects_in_subprocess: ClassVar[bool] = False
    """`may_hide_code` imports a framework, so it is asked in a process of its own."""

    kind: str
    precision: Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "mixed"] | None = Field(
        None, description="Precision the maker declares; compared with what is observed."
    )
    quantization: dict[str, str] = Field(
        default_factory=dict, description="How it was quantized: method, calibration (a dataset's name)."
    )
    device: Annotated[str, StringConstraints(pattern=r"^(cpu|cuda(:\d+)?)$")] = Field(
        "cpu", description="cpu or cuda:0."
    )
    batch: int = Field(32, ge=1, description="Batch size at which quality is computed.")
    preprocess: tuple[Any, ...] = Field(
        (), description="Stages between dataset columns and the model's inputs, in order."
    )
    inputs: dict[str, str | tuple[str, ...]] = Field(
        default_factory=dict, description="Tensor of the model: a column, or columns stacked in this order."
    )
    outputs: dict[OutputName, str | int] = Field(
        default_factory=dict, description="What the output is: its name in the model."
    )
    classes: str | tuple[str | int | bool | float, ...] | None = Field(
        None, description="Label of each output index: a list, or a text file with one a line."
    )
    multilabel: bool = Field(
        False,
        description="A row may have any number of classes: each logit becomes a probability by a sigmoid of its own.",
    )
    trained_until: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")] | None = Field(
        None, description="Last day of its training data, as its maker declares it: 2026-01-31."
    )
    artifact: str | None = Field(
        None,
        description="What identifies the subject where the model itself is not a local file: a path, or a declared "
        "sha256:.... For a model that is a local file, it must match that file.",
    )

    @field_validator("trained_until")
    @classmethod
    def _is_a_day(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                date.fromisoformat(value)
            except ValueError as error:
                raise custom_error(Problem(f"{value!r} is not a day", remedy="write such as 2026-01-31")) from error
        return value

    @property
    def answers_rows(self) -> bool:
        """True if it gives an answer to each row, which can be judged and timed."""
        return True

    def artifact_model(self, access: Access) -> Model | None:
        """Model that runs the artifact behind answers in files; None: there is none, or it can't be run."""
        return None

    @property
    def sampled(self) -> bool:
        """True if its answers are drawn at random, so that the same row may get different answers."""
        return False

    def unsampled(self) -> Model:
        """The same model, with the likeliest answer to each row."""
        return self

    @property
    def prompt_columns(self) -> tuple[str, ...]:
        """Columns that fill its prompt; none if ``inputs`` or stages fill it."""
        return ()

    @property
    def shown_rows(self) -> ShownRows | None:
        """Rows of a dataset that its prompt shows as examples; None: it shows none."""
        return None

    @property
    def templates(self) -> int:
        """Number of user texts in its prompt."""
        return 1

    @property
    def orders(self) -> int:
        """Number of rotations of its options in which each row is asked."""
        return 1

    @property
    def chooses(self) -> OptionScore | None:
        """Score by which it chooses from the options of a row; None: it does not choose."""
        return None

    @property
    def writes_texts(self) -> bool:
        """True if it is a language model that writes answers."""
        return False

    @property
    def samples(self) -> int:
        """Number of answers to each row."""
        return 1

    @property
    def exact_tokens(self) -> int | None:
        """Fixed number of tokens in each of its answers; None: the model decides when an answer ends."""
        return None

    def bound(self, datasets: Mapping[str, Dataset]) -> Model:
        """The same model with the datasets of the spec that it reads itself."""
        return self

    @property
    def writes_slowly(self) -> bool:
        """True if it writes token by token, so that a fingerprint of its answers uses few rows."""
        return False

    @property
    def always_new(self) -> bool:
        """True if all timed queries differ, so that no cache can hold their answers."""
        return False

    @property
    def elsewhere(self) -> bool:
        """True if it runs on another machine, whose counters can't be read."""
        return False

    @property
    def starts_server(self) -> bool:
        """True if it names the command by which its server is started for the time of a run."""
        return False

    def runs_code(self) -> tuple[str, ...]:
        """Parts of it that run only under --trust, as text for messages; empty: none, as far as its fields show."""
        return ("code that the spec names",) if self.needs_trust else ()

    def doubts(self) -> tuple[str, ...]:
        """Sentences about fields that are allowed but probably a mistake; ``validate`` prints them."""
        return ()

    def forgets(self, access: Access) -> bool:
        """True where nothing that it was asked before changes what a query takes.

        It is ``stateless``, and no code of others, which `trust` lets run, can have come in its file.
        """
        return self.stateless and not (access.trust and self.inspects_in_subprocess)

    def may_hide_code(self, access: Access) -> str | None:
        """Content of its files that may be read under --trust only, as text for messages; None: none was seen.

        Checked before a run starts. The code that loads a file checks again, and decides.

        Raises:
            InputError: A file is missing, or of another kind.
        """
        return None

    def secrets_read(self) -> tuple[str, ...]:
        """Environment variables that it reads as secrets, each only under --env NAME."""
        return ()

    def files(self, access: Access) -> tuple[Path, ...]:
        """All files of the artifact, with weights beside it; the digest is computed from their bytes."""
        raise NotImplementedError

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        """Local files that decide its answers, whatever ``artifact:`` states, by their role.

        A folder means all files in it. They are part of every key under which answers are kept.

        Raises:
            InputError: One is missing.
        """
        return {"model": self.files(access)}

    def answer_files(self) -> Mapping[str, str]:
        """Dataset: the file with its answers, for a model that is not run; empty: the model is run."""
        return {}

    def answer_tables(self) -> Mapping[str, str]:
        """The `answer_files` that are tables, whose columns the spec names."""
        return self.answer_files()

    def kept_answers(self, access: Access, dataset: str, digest: str) -> Path | None:
        """The file with its answers to a dataset from an earlier run; None: the model answers now.

        Args:
            access: Files that may be read.
            dataset: Name of the dataset.
            digest: Digest of its present rows.

        Raises:
            InputError: The kept answers can't be read.
            NotRunError: The earlier run has no answers to these rows.
        """
        return None

    def vocabulary(self, access: Access) -> str | None:
        """Digest of its tokenizer; None: it has none.

        Raises:
            InputError: It can't be read.
        """
        return None

    def kept_facts(self, access: Access) -> Mapping[str, Cell]:
        """Digests of the prompt and the chat template behind the kept answers; empty: none.

        Raises:
            InputError: The kept record can't be read.
        """
        return {}

    def kept_digest(self, access: Access) -> str | None:
        """Digest of the artifact that gave the kept answers; None: there is none.

        Raises:
            InputError: The kept record can't be read.
        """
        return None

    def load(self, access: Access, *, threads: int | None = None) -> LoadedModel:
        """Load the model into memory; heavy libraries are imported here.

        Raises:
            InputError: The file can't be loaded, or needs something that is missing.
        """
        raise NotImplementedError


class LoadedModel(Protocol):
    """A model in memory. Inputs and outputs are arrays, under the model's own names."""

    @property
    def observed(self) -> Mapping[str, Cell]:
        """Observed facts: ``precision``, ``device``, ``provider``, ``threads``, ``framework``."""
        ...

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of its inputs."""
        ...

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of its outputs."""
        ...

    @property
    def fixed_batch(self) -> int | None:
        """The only batch size that the file allows; None: any."""
        ...

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Predict one batch."""
        ...

    def close(self) -> None:
        """Free its memory."""
        ...


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The first rows of a dataset, shown to a model before each question.

    Args:
        dataset: Its name.
        rows: How many.
        columns: Columns that must be there.
    """

    dataset: str
    rows: int
    columns: tuple[str, ...]
