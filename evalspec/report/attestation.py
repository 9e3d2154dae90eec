"""The verdict as an in-toto statement, for policies of a supply chain; it is signed by the user's own tool."""

from __future__ import annotations

import json

from evalspec.evidence.record import ModelRecord, Record
from evalspec.evidence.verdict import Decision, Verdict
from evalspec.evidence.words import plain_digest

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
OF_LIST = "evalspecFileList"
"""Name of the digest of an artifact of several files: sha256 over the list of their names, sizes and digests."""


def attestation(record: Record, verdict: Verdict) -> str:
    """An in-toto statement with the test-result predicate, as JSON, unsigned.

    PASSED is READY without a warning, WARNED is READY with a waiver or a warning that does not hold; everything else
    is FAILED: what is not decided has not passed.

    Args:
        record: The run.
        verdict: Its verdict.

    Returns:
        Empty subject where no digest of the model is known; policies then match nothing.

    References:
        in-toto Attestation Framework, Statement v1; predicate Test Result v0.1.
    """
    subject = [_subject(one) for one in record.models if one.digest is not None and one.digest == record.subject]
    failed = [one.name for one in verdict.decisions if one.blocking and one.status != "PASS"]
    warned = [one.name for one in verdict.decisions if _warns(one)]
    passed = [one.name for one in verdict.decisions if one.status == "PASS"]
    result = "FAILED" if verdict.word != "READY" else "WARNED" if warned else "PASSED"
    statement = {
        "_type": STATEMENT,
        "subject": subject,
        "predicateType": PREDICATE,
        "predicate": {
            "result": result,
            "configuration": [
                {"name": "spec.yaml", "digest": {"sha256": record.spec_digest}},
                *([{"name": "profile.yaml", "digest": {"sha256": record.profile.digest}}] if record.profile else ()),
                *({"name": f"dataset {one.name}", "digest": {"evalspecRows": plain_digest(one.digest)}}
                  for one in record.datasets),
            ],
            "passedTests": passed,
            "warnedTests": warned,
            "failedTests": failed,
        },
    }  # fmt: skip
    return json.dumps(statement, indent=1) + "\n"


def _warns(one: Decision) -> bool:
    return one.waived or (not one.blocking and one.status != "PASS")


def _subject(model: ModelRecord) -> dict[str, object]:
    assert model.digest is not None
    kind = "sha256" if model.files == 1 else OF_LIST
    found: dict[str, object] = {"name": model.path or model.name, "digest": {kind: plain_digest(model.digest)}}
    # Nothing here looked into what answered, so a policy must be able to tell.
    return found | ({"annotations": {"evalspecDigest": "as stated"}} if model.digest_stated else {})
