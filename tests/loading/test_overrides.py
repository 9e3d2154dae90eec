from __future__ import annotations

import pytest

from tests.loading.conftest import Load, Refused
from tests.loading.doubles import SPEC, Score


def test_fields_of_checks_and_of_the_top_are_set(read: Load) -> None:
    arguments = ["score.bins=7", "seed=3", "policy.confidence=0.9", "timing.duration=1 min", "models.baseline.batch=4"]
    spec = read(overrides=arguments)
    check = spec.model[0]
    assert isinstance(check, Score)
    assert (check.bins, spec.seed, spec.policy.confidence, spec.models["baseline"].batch) == (7, 3, 0.9, 4)
    assert spec.overrides == tuple(arguments)
    assert spec.text.startswith("# --set score.bins=7\n# --set seed=3\n")
    assert read(spec.text).digest == spec.digest


def test_requirements_are_set_as_lists(read: Load) -> None:
    spec = read(overrides=["score.require=[accuracy >= 80 %, ece <= 0.1]"])
    assert [one.sentence for one in spec.model[0].require] == ["accuracy >= 80 %", "ece <= 0.1"]


def test_an_item_of_a_list_is_set_by_its_number(read: Load) -> None:
    assert read(overrides=["score.require.0=accuracy >= 85 %"]).model[0].require[0].threshold == 0.85


def test_a_later_argument_sees_the_earlier_one(read: Load) -> None:
    assert read(overrides=["score.id=other", "other.bins=5"]).model[0].name == "other"


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        (
            "scor.bins=3",
            "--set scor.bins=3: there is nothing called 'scor' (choices: timing, score, overlap, name, seed, policy, "
            "models, datasets); did you mean 'score'?",
        ),
        ("score=3", "--set score=3: 'score' is a whole check; name a field: score.FIELD"),
        ("score.bins", "--set score.bins: no TARGET=VALUE; write such as --set calibration.bins=15"),
        ("=3", "--set =3: no TARGET=VALUE; write such as --set calibration.bins=15"),
        ("a..b=3", "--set a..b=3: no TARGET=VALUE; write such as --set calibration.bins=15"),
        (
            "models.candidat.path=x",
            "--set models.candidat.path=x: unknown model 'candidat' (choices: candidate, baseline); did you mean "
            "'candidate'?",
        ),
        ("score.require.7=x", "--set score.require.7=x: 7 is not a place in a list of 2"),
        ("name.x=1", "--set name.x=1: 'name' is a value, so there is no 'x' in it"),
        ("score.bins=1", "--set score.bins=1: model[0].bins: 1 should be greater than 1"),
        ("score.bins=", "--set score.bins=: model[0].bins: this is empty, and it should be a whole number; "
         "write a value, or remove the key"),
        ("seed=!!int 3", "--set seed=!!int 3:1:1: a YAML tag (!!int) is not allowed in a spec; remove it: values are "
         "text, numbers, true, false and null"),
        (
            "score.require=[acuracy >= 3 %]",
            "--set score.require=[acuracy >= 3 %]: model[0].require[0]: unknown metric 'acuracy' (choices: accuracy, "
            "ece, mae); did you mean 'accuracy'?",
        ),
    ],
)  # fmt: skip
def test_what_is_not_understood_names_the_argument(argument: str, said: str, refused: Refused) -> None:
    assert refused(overrides=[argument]) == [said]


def test_an_unknown_field_is_an_unknown_key(refused: Refused) -> None:
    (said,) = refused(overrides=["score.binz=3"])
    assert said.startswith("--set score.binz=3: model[0].binz: unknown key 'binz'")
    assert said.endswith("did you mean 'bins'?")


def test_all_arguments_are_looked_at(refused: Refused) -> None:
    assert len(refused(overrides=["a=1", "b=2"])) == 2


def test_a_line_break_in_an_argument_stays_in_its_comment(read: Load) -> None:
    spec = read(SPEC, ["score.why=a\n  b"])
    assert spec.text.splitlines()[0] == "# --set score.why=a b"
    assert spec.model[0].why == "a b"
