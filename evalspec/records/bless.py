"""A baseline is set on purpose: a run's record and answers, copied beside the spec to be committed."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from evalspec.answers.parts import copy_answers, first_fault
from evalspec.errors import RecordError, WriteError
from evalspec.evidence.record import Record
from evalspec.loading import PROFILE_FILE
from evalspec.records.outputs import check_decided
from evalspec.running.files import sha256_of
from evalspec.running.folders import BASELINES, read_record
from evalspec.running.journal.closing import check_as_written

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def bless(run: Path, name: str, *, replace: bool = False) -> tuple[Path, Record]:
    """Copy record, spec and answers of a run to ``baselines/NAME`` beside the spec that was run.

    Where a program handed the spec over, that is the folder in which it ran.

    Args:
        run: Folder of the run.
        name: Name of the baseline.
        replace: Where there is one of this name already.

    Returns:
        The new folder, and the record.

    Raises:
        RecordError: No record, or that of a draft, a part or an interrupted run; a changed record, answers that are
            changed or gone, a name that is none or taken.
        WriteError: It can't be written.
    """
    record = read_record(run)
    if NAME.fullmatch(name) is None:
        raise RecordError(f"{name!r} is not a name for a baseline; use small letters, digits, and . _ - between them")
    if record.draft or record.interrupted or record.only:
        what = "a draft" if record.draft else "interrupted" if record.interrupted else "a part of its spec (`--only`)"
        raise RecordError(f"{run} is {what}, so no run can be compared with it; bless a whole run")
    check_decided(record, run)
    check_as_written(run)
    place = (run / record.spec_file).resolve().parent
    if not record.from_mapping and not (run / record.spec_file).is_file():
        raise RecordError(f"the spec of {run} is not at {record.spec_file} from there: one of them was moved")
    for file in record.predictions:
        if not (run / file.path).is_file():
            raise RecordError(f"{file.path} of {run} is gone, so no answer could be paired with it; bless a whole run")
        if sha256_of(run / file.path) != file.digest or first_fault(run / file.path) is not None:
            raise RecordError(
                f"{file.path} in {run} is not what the run wrote; `evalspec verify` says what else differs"
            )
    target = place / BASELINES / name
    if target.exists() and not replace:
        raise RecordError(f"there is a baseline {name} already, in {target}; pass --replace to overwrite it")
    kept = [PROFILE_FILE] if (run / PROFILE_FILE).is_file() else []
    _write(run, target, ["record.json", "spec.yaml", *kept, *(file.path for file in record.predictions)], record)
    return target, record


def _write(run: Path, target: Path, files: list[str], record: Record) -> None:
    """All files, then the folder in its place by one rename."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            for name in files:
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                copy_answers(run / name, fresh / name)
            word = None if record.verdict is None else record.verdict.word
            about = {"run": run.resolve().name, "started": record.started, "verdict": word, "subject": record.subject}
            (fresh / "blessed.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            fresh.chmod(0o755)
            if target.exists():
                shutil.rmtree(target)
            os.replace(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise WriteError(f"the baseline {target} can't be written: {error.strerror or error}") from error
