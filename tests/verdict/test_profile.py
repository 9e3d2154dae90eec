"""What a profile asks for and is missing blocks, whatever else holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalspec.evidence.policy import Policy
from evalspec.evidence.profile import Profile, RequestedItem, Without
from evalspec.evidence.record import ModelRecord, Record
from evalspec.evidence.verdict import Decision
from evalspec.language.parts import Access
from evalspec.language.registry import discover
from evalspec.loading import requested_profile
from evalspec.loading.profile import load_profile, profile_names
from evalspec.loading.spec import SpecFields
from evalspec.verdict import decide
from tests.verdict.test_decide import UNDECIDED, a_check, a_record, a_test


def an_item(name: str = "energy", **fields: Any) -> RequestedItem:
    return RequestedItem.model_validate(
        {"name": name, "asks": f"`{name}`", "kinds": (name,), "why": "It runs on a battery."} | fields
    )


def a_profile(*items: RequestedItem, order: tuple[str, ...] = ("energy", "quality"), **fields: Any) -> Profile:
    given: dict[str, Any] = {"name": "edge", "digest": "0" * 64, "about": "A battery.", "order": order, "asked": items}
    return Profile.model_validate({"dimensions": ("system", "model", "data")} | given | fields)


def judged(*items: RequestedItem, **fields: Any) -> Record:
    """A record in which all that was measured holds, under a profile with these items."""
    return a_record(a_check(a_test()), **({"profile": a_profile(*items)} | fields))


def decision(record: Record, name: str) -> Decision:
    return next(one for one in decide(record).decisions if one.name == name)


def test_a_mandatory_item_that_is_missing_blocks() -> None:
    assert decide(judged(an_item(found=("energy",)))).headline == "READY"
    verdict = decide(judged(an_item()))
    assert (verdict.word, verdict.exit_code, verdict.counts) == ("UNDECIDED", 3, {"NOT_RUN": 1, "PASS": 1})
    assert verdict.reason == (
        "profile/energy: the profile edge asks for `energy`: it runs on a battery; "
        "add it, or set it aside with `without:`"
    )
    first = verdict.decisions[0]
    assert (first.name, first.status, first.blocking, first.waived) == ("profile/energy", "NOT_RUN", True, False)


def test_no_policy_lets_it_through() -> None:
    allow = Policy(inconclusive="allow")
    assert decide(a_record(a_check(a_test(), a_test(metric="recall", **UNDECIDED)), policy=allow)).word == "READY"
    assert decide(judged(an_item(), policy=allow)).word == "UNDECIDED"


def test_a_violation_stands_beside_it() -> None:
    record = a_record(a_check(a_test(p_pass=1.0, p_fail=1e-9)), profile=a_profile(an_item()))
    assert decide(record).word == "NOT READY"


def test_what_is_set_aside_is_shown_like_a_waiver() -> None:
    aside = Without(of="energy", why="No meter on this board.", owner="me", expires="2026-12-31")
    verdict = decide(judged(an_item(), without=(aside,)))
    assert (verdict.headline, verdict.exit_code) == ("READY (1 waived)", 0)
    assert verdict.weakened == ("set aside: profile/energy: No meter on this board. (owner me, until 2026-12-31)",)
    found = decision(judged(an_item(), without=(aside,)), "profile/energy")
    assert (found.status, found.blocking, found.waived) == ("NOT_RUN", False, True)
    assert found.sentence.endswith("it runs on a battery; set aside: no meter on this board")


@pytest.mark.parametrize(("expires", "word"), [("2026-11-19", "UNDECIDED"), ("2026-11-20", "READY"), (None, "READY")])
def test_it_ends_by_the_day_of_the_run(expires: str | None, word: str) -> None:
    aside = Without(of="energy", why="No meter.", owner="me", expires=expires)
    verdict = decide(judged(an_item(), without=(aside,)))
    assert verdict.word == word
    ended = "the setting aside of profile/energy ended on 2026-11-19 and no longer applies"
    assert (ended in verdict.weakened) == (word == "UNDECIDED")


def test_one_item_set_aside_leaves_the_other() -> None:
    aside = Without(of="energy", why="No meter.", owner="me")
    verdict = decide(judged(an_item(), an_item("memory"), without=(aside,)))
    assert verdict.headline == "UNDECIDED (1 waived, 1 not run)"
    assert verdict.reason.startswith("profile/memory: ")


def test_what_is_recommended_only_warns() -> None:
    verdict = decide(judged(an_item(mandatory=False)))
    assert (verdict.headline, verdict.counts) == ("READY", {"PASS": 1, "warn NOT_RUN": 1})
    found = decision(judged(an_item(mandatory=False)), "profile/energy")
    assert not found.blocking and not found.waived
    assert found.sentence == "the profile edge recommends `energy`: it runs on a battery"


def test_its_order_settles_ties_and_nothing_else() -> None:
    checks = (
        a_check(a_test("latency", "latency_p99"), id="latency", dimension="system"),
        a_check(a_test("quality", "accuracy"), a_test("quality", "recall", **UNDECIDED), id="quality"),
        a_check(a_test("memory", "model_size"), id="memory", dimension="system"),
    )
    plain = [one.name for one in decide(a_record(*checks)).decisions]
    assert plain == ["quality/recall", "latency/latency_p99", "quality/accuracy", "memory/model_size"]
    profile = a_profile(an_item("slices"), an_item("energy"), order=("memory", "energy", "quality", "slices"))
    ordered = [one.name for one in decide(a_record(*checks, profile=profile)).decisions]
    assert ordered == [
        *("profile/energy", "profile/slices"),
        *("quality/recall", "memory/model_size", "quality/accuracy", "latency/latency_p99"),
    ]


def _compared(*against: str | None, digest: str = "a", severity: str = "require", **fields: Any) -> Record:
    """Quality against these models, under a profile that asks for a baseline; that of ``baseline`` is given."""
    tests = [a_test(metric=f"m{index}", against=one, severity=severity) for index, one in enumerate(against)]
    others = tuple(dict.fromkeys(one or "baseline" for one in against))
    check = a_check(*tests).model_copy(update={"models": ("candidate", *others), "baseline_models": others})
    models = [
        ModelRecord(name=name, kind="onnx", digest=one)
        for name, one in (("candidate", "a"), ("baseline", digest), ("older", "c"))
    ]
    item = an_item("baseline", states="baseline", kinds=(), found=("quality",), **fields)
    return a_record(check, a_check(a_test("own"), id="own"), profile=a_profile(item), models=tuple(models))


@pytest.mark.parametrize("against", [("baseline",), (None,)], ids=["a sentence", "a check that compares by itself"])
def test_a_model_that_is_its_own_baseline_answers_nothing(against: tuple[str | None, ...]) -> None:
    assert decide(_compared(*against, digest="b")).headline == "READY"
    verdict = decide(_compared(*against))
    assert verdict.headline == "UNDECIDED (1 not run)"
    assert verdict.reason == (
        "profile/baseline: the profile edge asks for `baseline` (quality compares with baseline, which is the same "
        "artifact, run in the same way): it runs on a battery; compare with another model, or remove the comparison "
        "and "
        "set the item aside with `without:`"
    )


def test_one_other_model_beside_it_is_a_baseline() -> None:
    assert decide(_compared("baseline", "older")).headline == "READY"
    assert decide(_compared("older")).headline == "READY"


def test_a_baseline_whose_digest_nobody_knows_may_be_another_one() -> None:
    record = _compared("baseline")
    unknown = tuple(one.model_copy(update={"digest": None}) for one in record.models)
    assert decide(record.model_copy(update={"models": unknown})).headline == "READY"


def _answered(profile: Profile, without: str | None) -> Profile:
    """The profile with all of its items answered but one."""
    return profile.model_copy(
        update={
            "asked": tuple(
                one.model_copy(update={"found": () if one.name == without else ("quality",)}) for one in profile.asked
            )
        }
    )


@pytest.mark.parametrize("name", profile_names())
def test_a_run_that_lacks_one_mandatory_item_of_our_profiles_is_never_ready(name: str, tmp_path: Path) -> None:
    loaded = load_profile(name, Access(tmp_path), discover(plugins=False))
    profile = requested_profile.hold(loaded, [], {}, SpecFields(evalspec=1, name="x"))
    assert profile.missing and not any(one.found for one in profile.asked)
    words: Mapping[str, str] = {
        one.name: decide(judged(profile=_answered(profile, one.name))).word for one in profile.asked if one.mandatory
    }
    assert set(words.values()) == {"UNDECIDED"}
    assert decide(judged(profile=_answered(profile, None))).headline == "READY"


def _first(name: str, folder: Path, *kinds: str) -> str:
    """Which of these checks comes first in a report under a profile, where all are violated alike."""
    loaded = load_profile(name, Access(folder), discover(plugins=False))
    profile = _answered(requested_profile.hold(loaded, [], {}, SpecFields(evalspec=1, name="x")), None)
    checks = (a_check(a_test(kind, "m", p_pass=1.0, p_fail=1e-9), id=kind) for kind in kinds)
    verdict = decide(a_record(*checks, profile=profile))
    assert verdict.word == "NOT READY" and verdict.counts == {"FAIL": len(kinds)}, "no profile forgives a violation"
    return verdict.reason.partition("/")[0]


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        # Being right decides where findings are acted on, and speed where something waits.
        ("scientific_medical", "quality", "latency"),
        ("real_time", "latency", "quality"),
        # Twice the throughput is worth most in a data centre, and a fifth of the power on a battery.
        ("cloud", "throughput", "energy"),
        ("edge", "energy", "throughput"),
        ("tiny", "energy", "latency"),
        ("serverless", "cold_start", "throughput"),
        # Who reads along waits for the first word; a catalogue that is written over night is paid by the token.
        ("interactive", "load", "throughput"),
        # A recipe is first about how long it takes to get there.
        ("training", "time_to_accuracy", "latency"),
    ],
)
def test_what_matters_most_is_another_thing_in_another_context(
    name: str, first: str, second: str, tmp_path: Path
) -> None:
    assert _first(name, tmp_path, first, second) == first
    assert _first(name, tmp_path, second, first) == first
