"""Profiles: what of a spec answers them, what is set aside, and files that are none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from evalspec.errors import SpecError
from evalspec.evidence.profile import Profile
from evalspec.language.parts import Access
from evalspec.language.registry import DIMENSIONS, discover
from evalspec.loading import LoadOptions, Spec, load, load_kept
from evalspec.loading.problems import keys_of
from evalspec.loading.profile import Item, load_profile, profile_names
from evalspec.loading.summary import profile_lines, to_json
from evalspec.planning import plan
from evalspec.planning.explain import explain
from evalspec.planning.explain import to_json as to_plan_json

OWN = discover(plugins=False)
SPEC = """\
evalspec: 1
name: demo
profile: team.yaml
{more}
models:
  candidate: {{kind: onnx, path: m.onnx, outputs: {{logits: y}}, classes: [no, yes]}}
  baseline: {{kind: onnx, path: b.onnx, outputs: {{logits: y}}, classes: [no, yes]}}
datasets:
  test: {{kind: parquet, path: test.parquet, label: y}}
  train: {{kind: parquet, path: train.parquet, label: y}}
  traffic: {{kind: parquet, path: traffic.parquet}}
model:
  - {{check: quality, dataset: test, require: [accuracy >= 90 %]}}
{checks}
"""
TEAM = """\
profile: 1
name: team
about: Ours.
order: [shift, quality, latency]
mandatory:
  - check: quality
    why: Being right comes first.
  - {item}
"""


def spec(folder: Path, item: str, checks: str = "", more: str = "") -> Spec:
    """A spec with a quality check and these, under a profile that asks for quality and this."""
    (folder / "team.yaml").write_text(TEAM.format(item=item))
    (folder / "s.yaml").write_text(SPEC.format(checks=checks, more=more))
    return load(folder / "s.yaml", options=LoadOptions(files=False), registry=OWN)


def found(one: Spec) -> Mapping[str, tuple[str, ...]]:
    assert one.profile is not None
    return {asked.name: asked.found for asked in one.profile.asked}


def refused(folder: Path, item: str, more: str = "", checks: str = "") -> list[str]:
    with pytest.raises(SpecError) as caught:
        spec(folder, item, checks, more)
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


LATENCY = "system:\n  - {check: latency, dataset: test, %s}"


def test_order_reasons_and_digest_stand_in_the_spec_s_profile(tmp_path: Path) -> None:
    one = spec(tmp_path, "{check: energy, name: battery, why: It lasts a day., from: A book}").profile
    assert isinstance(one, Profile)
    assert (one.name, one.order, one.dimensions) == (
        "team",
        ("shift", "quality", "latency"),
        ("data", "model", "system"),
    )
    (missing,) = one.missing
    assert (missing.full_name, missing.asks, missing.why, missing.source) == (
        *("profile/battery", "`energy` with a blocking requirement", "It lasts a day.", "A book"),
    )
    # Comments and layout don't count, what is asked does.
    again = spec(tmp_path, "{check: energy,   name: battery, why: It lasts a day., from: A book} # mine").profile
    other = spec(tmp_path, "{check: energy, name: battery, why: It lasts a week., from: A book}").profile
    assert again is not None and other is not None
    assert again.digest == one.digest != other.digest


def test_what_is_missing_set_aside_or_recommended_is_said_by_validate(tmp_path: Path) -> None:
    item = (
        "{check: energy, why: It lasts a day.}\n  - {check: memory, why: It has little.}\n"
        "recommended:\n  - {check: slices, why: Averages hide.}"
    )
    aside = "without: [{of: energy, why: No meter., owner: me, expires: 2030-01-31}]"
    one = spec(tmp_path, item, more=aside)
    assert list(profile_lines(one)) == [
        "profile team: 1 of 3 mandatory items are present",
        "  set aside: energy: No meter. (owner me, until 2030-01-31)",
        "  missing, so no run can be READY: memory: `memory` with a blocking requirement: It has little.",
        "  recommended, missing: `slices` with a requirement: Averages hide.",
    ]
    shown = to_json(one)["profile"]
    assert [asked["found"] for asked in shown["asked"]] == [["quality"], [], [], []]
    assert [asked["mandatory"] for asked in shown["asked"]] == [True, True, True, False]
    assert shown["without"][0]["of"] == "energy"


def test_a_recommended_item_is_content_with_a_warning(tmp_path: Path) -> None:
    item = "{check: energy, why: w}\nrecommended:\n  - {check: latency, why: w}"
    assert found(spec(tmp_path, item, LATENCY % "warn: [latency_p50 <= 9 ms]"))["latency"] == ("latency",)
    assert found(spec(tmp_path, item, LATENCY % "report_only: true"))["latency"] == ()


WITHOUT = {
    "{of: enrgy, why: w, owner: me}": (
        "s.yaml:4:16: without[0].of: the profile team does not require 'enrgy' (choices: energy); did you mean "
        "'energy'?"
    ),
    "{of: quality, why: w, owner: me}": (
        "s.yaml:4:16: without[0].of: quality is in the spec (quality), so there is nothing to set aside (choices: "
        "energy); remove it; a requirement is set aside with `waivers:`"
    ),
    "{of: slices, why: w, owner: me}": (
        "s.yaml:4:16: without[0].of: slices is only recommended and does not block (choices: energy); remove it"
    ),
    "{of: energy, why: w, owner: me}, {of: energy, why: v, owner: me}": (
        "s.yaml:4:49: without[1].of: 'energy' is set aside twice; keep one of the two"
    ),
    "{of: energy, owner: me}": ("s.yaml:4:11: without[0]: `why` is missing: why it may be set aside; add `why:`"),
    '{of: energy, why: " ", owner: me}': "s.yaml:4:29: without[0].why: ' ' is not valid here; write it in words",
    '{of: energy, why: w, owner: ""}': "s.yaml:4:39: without[0].owner: '' is not valid here; write it in words",
    "{of: energy, why: w}": "s.yaml:4:11: without[0]: `owner` is missing: who is responsible; add `owner:`",
    "{of: energy, why: w, owner: me, expires: soon}": (
        "s.yaml:4:52: without[0].expires: 'soon' is not a day; write such as 2026-12-31"
    ),
}


@pytest.mark.parametrize(("entry", "said"), WITHOUT.items())
def test_setting_aside_is_refused_where_it_means_nothing(tmp_path: Path, entry: str, said: str) -> None:
    item = "{check: energy, why: w}\nrecommended: [{check: slices, why: w}]"
    (sentence,) = refused(tmp_path, item, f"without: [{entry}]")
    assert sentence == said


def test_without_a_profile_there_is_nothing_to_set_aside(tmp_path: Path) -> None:
    text = SPEC.format(checks="", more="without: [{of: energy, why: w, owner: me}]").replace("profile: team.yaml\n", "")
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(
        SpecError, match="there is no profile whose items could be set aside; name the profile with `prof"
    ):
        load(tmp_path / "s.yaml", options=LoadOptions(files=False), registry=OWN)


def test_a_waiver_of_what_a_profile_asks_for_points_to_without(tmp_path: Path) -> None:
    more = "waivers: [{of: profile/energy, why: w, owner: me, expires: 2030-01-01}]"
    (sentence,) = refused(tmp_path, "{check: energy, why: w}", more)
    assert "unknown requirement 'profile/energy'" in sentence
    assert sentence.endswith("set it aside with `without:`")


def test_a_waiver_without_a_reason_in_words_is_refused(tmp_path: Path) -> None:
    more = 'waivers: [{of: quality/accuracy, why: " ", owner: "\t", expires: 2030-01-01}]'
    assert [sentence.partition(": ")[2] for sentence in refused(tmp_path, "{check: energy, why: w}", more)] == [
        "waivers[0].why: ' ' is not valid here; write it in words",
        "waivers[0].owner: '\\t' is not valid here; write it in words",
    ]


SERVED = "{check: energy, why: w}\nrecommended: [{check: recovery, served: true, why: w}]"


@pytest.mark.parametrize(("kind", "more"), [("onnx", set()), ("http", {"recovery"})])
def test_what_only_a_server_can_show_is_asked_of_servers_only(tmp_path: Path, kind: str, more: set[str]) -> None:
    (tmp_path / "team.yaml").write_text(TEAM.format(item=SERVED))
    text = SPEC.format(checks="", more="")
    if kind == "http":
        text = text.replace("kind: onnx, path: m.onnx", "kind: http, url: 'http://127.0.0.1:8080', model_name: m", 1)
    (tmp_path / "s.yaml").write_text(text)
    assert (
        set(found(load(tmp_path / "s.yaml", options=LoadOptions(files=False), registry=OWN)))
        == {"quality", "energy"} | more
    )


def test_no_check_takes_the_name_of_the_profile_s_items(tmp_path: Path) -> None:
    checks = LATENCY % "id: profile, require: [latency_p50 <= 9 ms]"
    (sentence,) = refused(tmp_path, "{check: energy, why: w}", checks=checks)
    assert "system[0].id: 'profile' is the report's name for the items of the profile" in sentence


BAD = {
    "{check: enegry, why: w}": "team.yaml:8:13: mandatory[1].check: unknown check 'enegry'",
    "{any_of: [latency, laod], why: w}": "team.yaml:8:24: mandatory[1].any_of[1]: unknown check 'laod'",
    "{check: latency, metrics: [latency_p98], why: w}": (
        "team.yaml:8:32: mandatory[1].metrics[0]: unknown metric 'latency_p98' of latency"
    ),
    "{check: load, with: {arrivals.kid: gamma}, why: w}": (
        "team.yaml:8:26: mandatory[1].with.arrivals.kid: load has no field 'arrivals.kid' with choices"
    ),
    "{check: load, with: {arrivals.kind: gama}, why: w}": "'gama' is not one of the choices of arrivals.kind",
    "{check: latency, require: [latency_p50 <= 9 ms], why: w}": (
        "team.yaml:8:22: mandatory[1].require: a profile can't set a threshold; write the threshold in the spec"
    ),
    "{check: latency, states: rollback, why: w}": "this one has `check:` and `states:`",
    "{why: w}": "an item has one of `check:`, `any_of:` and `states:`, and this one has none of them",
    "{states: rollback, soft: true, why: w}": (
        "`metrics:`, `with:`, `soft:` and `number:` belong to a check; remove them from an item with"
    ),
    "{check: quality, why: w}": "team.yaml:8:5: mandatory[1]: two items are named 'quality'; give each a `name:`",
    "{check: latency}": "`why` is missing: why the item is required, in one sentence; add `why:`",
}


@pytest.mark.parametrize(("item", "said"), BAD.items())
def test_what_is_wrong_in_a_profile_s_file_has_its_place_there(tmp_path: Path, item: str, said: str) -> None:
    assert any(said in sentence for sentence in refused(tmp_path, item)), refused(tmp_path, item)


def test_a_slip_in_a_check_of_a_profile_has_a_remedy(tmp_path: Path) -> None:
    (sentence,) = refused(tmp_path, "{check: enegry, why: w}")
    assert sentence.endswith("did you mean 'energy'?")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (
            "edgy",
            "profile: unknown profile 'edgy' (choices: cloud, edge, interactive, real_time, scientific_medical, ",
        ),
        ("mine", "your own profile is a file in the spec's folder: mine.yaml"),
        ("profiles/none.yaml", "there is no file or folder 'profiles/none.yaml'"),
        ("../team.yaml", "'../team.yaml' lies outside the spec's folder; pass --allow-outside if this is intended"),
        ("./", "'./' is not a file"),
        ("[edge]", "should be text"),
        ("list.yaml", "list.yaml:1: a profile is a mapping of keys"),
    ],
)
def test_a_profile_that_is_not_there_is_said(tmp_path: Path, named: str, said: str) -> None:
    folder = tmp_path / "gate"
    folder.mkdir()
    (tmp_path / "team.yaml").write_text("")
    (folder / "list.yaml").write_text("- quality\n")
    (folder / "s.yaml").write_text(SPEC.format(checks="", more="").replace("team.yaml", named))
    with pytest.raises(SpecError) as caught:
        load(folder / "s.yaml", options=LoadOptions(files=False), registry=OWN)
    assert said in str(caught.value)


def test_a_run_s_own_copy_is_read_in_place_of_the_file(tmp_path: Path) -> None:
    spec(tmp_path, "{check: energy, why: w}")
    (tmp_path / "spec.yaml").write_text((tmp_path / "s.yaml").read_text())
    (tmp_path / "profile.yaml").write_text(TEAM.format(item="{check: memory, why: w}"))
    assert set(found(load_kept(tmp_path))) == {"quality", "memory"}


@pytest.mark.parametrize("name", profile_names())
def test_our_profiles_ask_something_of_every_dimension_and_of_answers_and_speed(name: str, tmp_path: Path) -> None:
    loaded = load_profile(name, Access(tmp_path), OWN)
    kinds = {kind for item in loaded.file.mandatory for kind in item.kinds}
    assert {OWN.checks[kind].dimension for kind in kinds} == set(DIMENSIONS)
    assert "quality" in kinds
    assert kinds & {"latency", "load", "throughput", "time_to_accuracy"}
    assert {"rollback", "baseline"} <= {item.states for item in loaded.file.mandatory}
    assert {kind for item in (*loaded.file.mandatory, *loaded.file.recommended) for kind in item.kinds} <= set(
        loaded.file.order
    )
    assert loaded.file.name == name


def test_the_profile_in_the_documentation_is_right(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "spec.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(profile: 1\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "line.yaml").write_text(block, encoding="utf-8")
    loaded = load_profile("line.yaml", Access(tmp_path), OWN)
    assert [item.called for item in loaded.file.mandatory] == ["tail", "load", "jitter", "baseline", "rollback"]
    table = text[text.index("| key of an item |") :].partition("\n\n")[0]
    keys = set(
        re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:] if line[:1] == "|"))
    )
    assert set(keys_of(Item)) <= keys


def test_a_plan_says_what_is_missing(tmp_path: Path) -> None:
    planned = plan(spec(tmp_path, "{check: energy, why: It lasts a day.}"))
    lines = explain(planned, None)
    assert lines.index("profile team: 1 of 2 mandatory items are present") < lines.index("order")
    assert "  missing, so no run can be READY: energy: `energy` with a blocking requirement: It lasts a day." in lines
    shown = to_plan_json(planned, None)["profile"]
    assert [one["name"] for one in shown["asked"] if not one["found"]] == ["energy"]
