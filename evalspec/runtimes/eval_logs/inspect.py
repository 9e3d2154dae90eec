"""Logs of Inspect: ``.json``, and ``.eval``, which is a zip archive.

Fields as in inspect-ai 0.3.285: `EvalLog` and `EvalSample` of `inspect_ai/log/_log.py`, `ModelOutput` of
`inspect_ai/model/_model_output.py`; members of the archive as in `inspect_ai/log/_recorders/eval.py` (one file for each
sample) and `inspect_ai/log/_recorders/chunked/format.py` (a folder for a large one). Since they are compressed by zstd,
which `zipfile` knows from Python 3.14 on, they are taken out here.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.errors import InputError
from evalspec.evidence.words import plural
from evalspec.language.bounded import check_zip
from evalspec.runtimes.eval_logs.log import AnswerLog, json_of, read_text, records_of

ZSTD = 93
LOCAL_HEADER = 30
CUT = ("max_tokens", "model_length")
"""Reasons to stop that cut an answer."""
ATTACHED = "attachment://"


def read_inspect(path: Path, shown: str, *, scorer: str | None, scored: bool) -> AnswerLog:
    """Answers of a log, one for each sample.

    Args:
        path: The file.
        shown: Its name, for sentences.
        scorer: The scorer whose reading of the answer is the column ``answer``; None: there is only one.
        scored: That column is wanted.

    Raises:
        InputError: Not such a log, several epochs, several scorers, or samples that were declared void.
    """
    log = _archive(path, shown) if path.suffix.lower() == ".eval" else json_of(read_text(path, shown), repr(shown))
    if not isinstance(log, Mapping) or not isinstance(log.get("eval"), Mapping):
        raise InputError(f"{shown!r} is not a log of Inspect: it has no `eval`")
    samples = records_of(log.get("samples"), shown)
    for sample in samples:
        for name in ("id", "epoch", "target", "output"):
            if name not in sample:
                raise InputError(f"{shown!r} has a sample without {name!r}, so it is not a log of Inspect")
    epochs = len({str(sample["epoch"]) for sample in samples})
    if epochs > 1:
        raise InputError(
            f"{shown!r} has {epochs} epochs, so there are several answers to each question",
            remedy="log one epoch (`--epochs 1`)",
        )
    void = sum(sample.get("invalidation") is not None for sample in samples)
    if void:
        raise InputError(f"{shown!r} has {void:,} samples that were declared void (`invalidation`)")
    missing = [sample.get("error") is not None for sample in samples]
    texts = ["" if gone else _completion(sample, shown) for sample, gone in zip(samples, missing, strict=True)]
    outputs = {"text": texts, "stop_reason": [_stop_reason(sample) for sample in samples]}
    outputs |= {"answer": _read_by(samples, missing, shown, scorer)} if scored else {}
    status, model = str(log.get("status")), str(log["eval"].get("model"))
    limited = sum(one in CUT for one in outputs["stop_reason"])
    retried = sum(bool(sample.get("error_retries")) for sample in samples)
    claim = (
        f"Inspect, status {status}, {limited:,} of {plural(len(samples), 'answer')} stopped at a limit, "
        f"{retried:,} asked again after an error; it names the model {model}"
    )
    return AnswerLog(samples, outputs, claim, missing=missing)


def _completion(sample: Mapping[str, Any], shown: str) -> str:
    output = sample["output"]
    text = output.get("completion") if isinstance(output, Mapping) else None
    if isinstance(text, str) and text.startswith(ATTACHED):
        attached = sample.get("attachments")
        text = attached.get(text.removeprefix(ATTACHED)) if isinstance(attached, Mapping) else None
    if not isinstance(text, str):
        raise InputError(f"{shown!r} has a sample without `output.completion` and without an error")
    return text


def _stop_reason(sample: Mapping[str, Any]) -> str:
    output = sample["output"]
    choices = output.get("choices") if isinstance(output, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return str(first.get("stop_reason", "unknown")) if isinstance(first, Mapping) else "unknown"


def _read_by(samples: list[Mapping[str, Any]], missing: list[bool], shown: str, scorer: str | None) -> list[str]:
    """Answers that a scorer read in the texts; the empty text where it found none."""
    scores = [sample.get("scores") or {} for sample in samples]
    if not all(isinstance(one, Mapping) for one in scores):
        raise InputError(f"{shown!r} has a sample whose scores are not listed by scorer")
    scorers = tuple(dict.fromkeys(str(name) for one in scores for name in one))
    if scorer is None and len(scorers) != 1:
        raise InputError(
            f"{shown!r} has {plural(len(scorers), 'scorer')}, and the spec does not say which of them read `answer`",
            choices=scorers,
            remedy="add `scorer:` to the model, or judge `text`",
        )
    if scorer is not None and scorer not in scorers:
        raise InputError(f"{shown!r} has no scorer {scorer!r}", choices=scorers)
    found = [one.get(scorer or scorers[0]) for one in scores]
    answers = [one.get("answer") if isinstance(one, Mapping) else None for one in found]
    return [one if isinstance(one, str) and not gone else "" for one, gone in zip(answers, missing, strict=True)]


def _archive(path: Path, shown: str) -> dict[str, Any]:
    """The header and the samples of an archive, as they stand in a ``.json`` log."""
    import pyarrow as pa

    try:
        check_zip(path, repr(shown))
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
            # A log that was not finished has no header, but what was written when it began.
            start = members.get("header.json") or members.get("_journal/start.json")
            if start is None:
                raise InputError(f"{shown!r} is not a log of Inspect: it has no header.json")
            log = json_of(_member(file, start), f"{start.filename} in {shown!r}")
            if not isinstance(log, Mapping):
                raise InputError(f"{start.filename} in {shown!r} holds no header")
            samples = [
                json_of(_member(file, info), f"{name} in {shown!r}")
                for name, info in members.items()
                if _is_sample(name)
            ]
    except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error,
            struct.error, MemoryError, OverflowError, pa.ArrowException) as error:  # fmt: skip
        raise InputError(f"{shown!r} can't be read as a log of Inspect: {error}", remedy="was it cut off?") from error
    return {**log, "samples": samples}


def _is_sample(name: str) -> bool:
    folder, _, rest = name.partition("/")
    parts = rest.split("/")
    return folder == "samples" and name.endswith(".json") and (len(parts) == 1 or parts[1:] == ["sample.json"])


def _member(file: Any, info: zipfile.ZipInfo) -> bytes:
    """Bytes of a member, no more than it says, checked by its sum; several frames of zstd may follow each other."""
    import pyarrow as pa

    file.seek(info.header_offset)
    header = file.read(LOCAL_HEADER)
    if len(header) < LOCAL_HEADER or header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"{info.filename} is not where the archive's directory says")
    name, extra = struct.unpack_from("<HH", header, 26)
    file.seek(info.header_offset + LOCAL_HEADER + name + extra)
    packed = file.read(info.compress_size)
    if info.compress_type == ZSTD:
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            content = bytes(stream.read(info.file_size + 1))
    elif info.compress_type == zipfile.ZIP_DEFLATED:
        content = zlib.decompressobj(-15).decompress(packed, info.file_size + 1)
    elif info.compress_type == zipfile.ZIP_STORED:
        content = packed
    else:
        raise zipfile.BadZipFile(f"{info.filename} is compressed by method {info.compress_type}")
    if zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile(f"{info.filename} does not match its checksum")
    return content
