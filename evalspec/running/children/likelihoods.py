"""Likelihoods of texts as a file, written by the worker that holds the model and read by the check."""

from __future__ import annotations

import json
from pathlib import Path

from evalspec.arrow import column_of, read_parquet
from evalspec.errors import RecordError
from evalspec.language.likelihoods import ARRAYS, BESIDE, SideLikelihoods, TokenLikelihoods, arrays_of
from evalspec.running.children.workers import TEXTS_DIGEST

FACTS = b"evalspec_likelihoods"


def write_likelihoods(found: TokenLikelihoods, path: Path, texts_digest: str) -> None:
    """Write likelihoods, a row for each text.

    Args:
        found: By one model.
        path: The file.
        texts_digest: Digest of what was asked, by which `kept_likelihoods` knows it again.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    facts = {
        "digest": found.digest, "first": found.first, "begins_twice": found.begins_twice, "details": dict(found.details)
    }  # fmt: skip
    metadata = {FACTS: json.dumps(facts).encode(), TEXTS_DIGEST: texts_digest.encode()}
    columns = {name: column_of(array) for name, array in arrays_of(found).items()}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)


def read_likelihoods(path: Path, model: str, beside: str | None) -> TokenLikelihoods:
    """Likelihoods that `write_likelihoods` wrote.

    Args:
        path: The file.
        model: Whose they are.
        beside: The other model, where one was asked with it.

    Raises:
        RecordError: It is another file.
    """
    import pyarrow as pa

    try:
        table = read_parquet(path)
        arrays = {name: table.column(name).to_numpy() for name in table.column_names}
        facts = json.loads((table.schema.metadata or {})[FACTS])
        side = None
        if beside is not None:
            side = SideLikelihoods(beside, **{name: arrays[f"beside_{name}"] for name in BESIDE})
        return TokenLikelihoods(
            model=model,
            **{name: arrays[name] for name in ARRAYS},
            digest=str(facts["digest"]),
            first=tuple(facts["first"]),
            begins_twice=int(facts["begins_twice"]),
            beside=side,
            details=facts["details"],
        )
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise RecordError(f"the likelihoods can't be read from {path.name}: {error}") from error
