"""A blessed run as a baseline: the answers that it kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evalspec.errors import InputError, NotRunError
from evalspec.evidence.record import PROMPT, TEMPLATE
from evalspec.evidence.words import short_digest
from evalspec.language.bounded import read_bounded
from evalspec.language.parts import Access, LoadedModel, Model, ModelName

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell
    from evalspec.evidence.record import Record as RunRecord

RECORD_BYTES = 256 * 2**20
FILE = "record.json"


class BlessedRun(Model):
    """Answers of an earlier run that ``evalspec bless`` set down, held against today's row by row.

    Its answers count for the datasets whose rows are still the same; nothing is timed against it.
    """

    timed: ClassVar[bool] = False
    remembered: ClassVar[bool] = True

    kind: Literal["record"] = "record"
    path: str = Field(min_length=1, description="Folder that `evalspec bless` made: baselines/NAME.")
    of: ModelName = Field("candidate", description="Name of the model in that run.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The record."""
        return (self._folder(access) / FILE,)

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        """The record, and the answers that lie beside it."""
        kept = sorted((self._folder(access) / "evidence").glob(f"predictions-{self.of}-*.parquet"))
        return {"record": self.files(access), "answers": kept}

    def kept_answers(self, access: Access, dataset: str, digest: str) -> Path:
        record = self._read(access)
        kept = {one.name: one for one in record.datasets}
        if dataset not in kept:
            asked = ", ".join(kept) or "none"
            raise NotRunError(f"the run in {self.path} did not use dataset {dataset}; its datasets: {asked}")
        if kept[dataset].digest != digest:
            raise NotRunError(
                f"dataset {dataset} has different rows than in the run in {self.path} (digest {short_digest(digest)} "
                f"now, {short_digest(kept[dataset].digest)} then), so its answers can't be paired; bless a run on "
                "these rows"
            )
        path = self._folder(access) / "evidence" / f"predictions-{self.of}-{dataset}.parquet"
        written = {Path(one.path).name: one.digest for one in record.predictions}
        if path.name not in written or not path.is_file():
            raise NotRunError(f"the run in {self.path} kept no answers of {self.of} on {dataset}")
        self._unchanged(path, written[path.name])
        return path

    def kept_facts(self, access: Access) -> Mapping[str, Cell]:
        models = {one.name: one for one in self._read(access).models}
        details = models[self.of].details if self.of in models else {}
        return {name: details[name] for name in (PROMPT, TEMPLATE) if name in details}

    def kept_digest(self, access: Access) -> str | None:
        models = {one.name: one for one in self._read(access).models}
        if self.of not in models:
            raise InputError(f"the run in {self.path} has no model {self.of!r}", choices=tuple(models))
        return models[self.of].digest

    def load(self, access: Access, *, threads: int | None = None) -> LoadedModel:
        """There is no model to run.

        Raises:
            NotRunError: Always.
        """
        raise NotRunError(f"{self.path} holds the answers of an earlier run, not a model that could be run")

    def _folder(self, access: Access) -> Path:
        folder = access.path(self.path)
        if not (folder / FILE).is_file():
            raise InputError(
                f"{self.path!r} holds no {FILE}", remedy="make it with `evalspec bless RUN --as NAME` and commit it"
            )
        return folder

    def _read(self, access: Access) -> RunRecord:
        from pydantic import ValidationError

        try:
            path = self._folder(access) / FILE
            state = path.stat()
            return _parsed(path, state.st_mtime_ns, state.st_ctime_ns, state.st_size)
        except (OSError, ValidationError) as error:
            raise InputError(f"the record in {self.path!r} can't be read: {str(error).splitlines()[0]}") from error

    def _unchanged(self, path: Path, digest: str) -> None:
        import hashlib

        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise InputError(
                    f"{path.name} in {self.path!r} is not what the run wrote", remedy="bless the run again"
                )


@lru_cache(maxsize=4)
def _parsed(path: Path, mtime_ns: int, ctime_ns: int, size_bytes: int) -> RunRecord:
    """A record as it is on disk; it is asked for once for each dataset and model that it stands for.

    Args:
        path: The file.
        mtime_ns: With the next two: what of the file is another once it has changed.
        ctime_ns: See above.
        size_bytes: See above.
    """
    from evalspec.evidence.record import Record as RunRecord

    return RunRecord.model_validate_json(read_bounded(path, repr(path.name), RECORD_BYTES))
