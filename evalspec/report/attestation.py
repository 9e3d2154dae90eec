"""The verdict as an in-toto statement, for policies of a supply chain; it is signed by the user's own tool."""

from __future__ import annotations

from collections.abc import Mapping

from evalspec.evidence.attestation import Artifact, Descriptor, Predicate, Statement
from evalspec.evidence.record import ModelRecord, Record
from evalspec.evidence.verdict import Decision, Verdict
from evalspec.evidence.words import plain_digest

OF_LIST = "evalspecFileList"
"""Name of the digest of an artifact of several files: sha256 over the list of their names, sizes and digests."""


def attestation(record: Record, verdict: Verdict, files: Mapping[str, str] | None = None) -> str:
    """An in-toto statement with the test-result predicate, as JSON, unsigned.

    PASSED is READY without a warning, WARNED is READY with a waiver or a warning that does not hold; everything else
    is FAILED: what is not decided has not passed.

    Args:
        record: The run.
        verdict: Its verdict.
        files: File of the run, such as ``record.json``: sha256 of its bytes.

    Returns:
        Empty subject where no digest of the model is known; policies then match nothing.

    References:
        in-toto Attestation Framework, Statement v1; predicate Test Result v0.1.
    """
    subject = [_subject(one) for one in record.models if one.digest is not None and one.digest == record.subject]
    failed = [one.name for one in verdict.decisions if one.blocking and one.status != "PASS"]
    warned = [one.name for one in verdict.decisions if _warns(one)]
    passed = [one.name for one in verdict.decisions if one.status == "PASS"]
    configuration = [_descriptor("spec.yaml", "sha256", record.spec_digest)]
    if record.profile is not None:
        configuration.append(_descriptor("profile.yaml", "sha256", record.profile.digest))
    configuration += [_descriptor(f"dataset {one.name}", "evalspecRows", one.digest) for one in record.datasets]
    statement = Statement(
        _type="https://in-toto.io/Statement/v1",
        subject=tuple(subject),
        predicateType="https://in-toto.io/attestation/test-result/v0.1",
        predicate=Predicate(
            result="FAILED" if verdict.word != "READY" else "WARNED" if warned else "PASSED",
            configuration=tuple(configuration),
            files=tuple(_descriptor(name, "sha256", digest) for name, digest in (files or {}).items()),
            passedTests=tuple(passed),
            warnedTests=tuple(warned),
            failedTests=tuple(failed),
        ),
    )
    return statement.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n"


def _warns(one: Decision) -> bool:
    return one.waived or (not one.blocking and one.status != "PASS")


def _descriptor(name: str, kind: str, digest: str) -> Descriptor:
    return Descriptor(name=name, digest={kind: plain_digest(digest)})


def _subject(model: ModelRecord) -> Artifact:
    assert model.digest is not None
    kind = "sha256" if model.files == 1 else OF_LIST
    # Nothing here looked into what answered, so a policy must be able to tell.
    stated = {"evalspecDigest": "as stated"} if model.digest_stated else None
    return Artifact(name=model.path or model.name, digest={kind: plain_digest(model.digest)}, annotations=stated)
