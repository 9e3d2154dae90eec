"""The verdict as an in-toto statement with the test-result predicate: what ``report --attestation`` prints.

References:
    in-toto Attestation Framework, Statement v1; predicate Test Result v0.1.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalspec.evidence.frozen import Frozen


class Descriptor(Frozen):
    """Something by its digest."""

    name: str
    digest: dict[str, str] = Field(
        min_length=1,
        description="Kind of digest: the digest in hexadecimal. sha256: of a file; evalspecFileList: sha256 over the "
        "list of names, sizes and digests of several files; evalspecRows: of the rows of a dataset.",
    )


class Artifact(Descriptor):
    """Artifact that was judged."""

    annotations: dict[str, str] | None = Field(
        None, description="evalspecDigest: `as stated` where nothing here looked into what answered."
    )


class Predicate(Frozen):
    """How the run ended."""

    result: Literal["PASSED", "WARNED", "FAILED"] = Field(
        description="PASSED: READY; WARNED: READY with a waiver or a warning that does not hold; FAILED: all else."
    )
    configuration: tuple[Descriptor, ...] = Field(description="The spec, its profile and the datasets.")
    files: tuple[Descriptor, ...] = Field(
        (), description="Record, journal and pages of the run, as far as they are there; the record names its evidence."
    )
    passed_tests: tuple[str, ...] = Field(alias="passedTests", description="Names of requirements that PASS.")
    warned_tests: tuple[str, ...] = Field(
        alias="warnedTests", description="Those that are waived, and warnings that do not hold."
    )
    failed_tests: tuple[str, ...] = Field(
        alias="failedTests", description="Those that block and do not PASS, undecided ones among them."
    )


class Statement(Frozen):
    """An unsigned in-toto statement."""

    kind: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[Artifact, ...] = Field(
        description="The model; empty where no digest of it is known, so that policies match nothing."
    )
    predicate_type: Literal["https://in-toto.io/attestation/test-result/v0.1"] = Field(alias="predicateType")
    predicate: Predicate
