from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evalspec.errors import SpecError
from evalspec.language.parts import Check, Dataset, Model
from evalspec.language.registry import KindEntry, Registry, discover, install_line, missing_packages
from tests.loading.doubles import REGISTRY, AbsentModel


def add_distribution(folder: Path, name: str, group: str, entry: str, code: str = "") -> None:
    """A distribution with one module and one entry point, as pip would leave it."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    if code:
        module = entry.partition("=")[2].strip().partition(":")[0]
        (folder / f"{module}.py").write_text(code)


def test_kinds_are_found_by_file_name_without_importing_them() -> None:
    code = "import sys; from evalspec.language.registry import discover; r = discover(); " + (
        "print(len(r.kinds('sources'))); print([m for m in sys.modules if m.startswith(('evalspec.sources.', "
        "'evalspec.runtimes.', 'evalspec.checks.'))])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert int(found[0]) >= 1
    assert found[1] == "[]"


def test_every_kind_of_our_own_is_what_its_file_says() -> None:
    registry = discover(plugins=False)
    for kind in registry.kinds("checks"):
        part = registry.check(kind)
        assert issubclass(part, Check)
        assert part.model_fields["check"].default == kind
    assert all(issubclass(registry.runtime(kind), Model) for kind in registry.kinds("runtimes"))
    assert all(issubclass(registry.source(kind), Dataset) for kind in registry.kinds("sources"))
    assert not any(kind.startswith("_") for kind in registry.kinds("sources"))


def test_an_unknown_kind_names_the_closest() -> None:
    with pytest.raises(SpecError) as caught:
        REGISTRY.check("scores")
    assert str(caught.value) == "unknown check 'scores' (choices: overlap, score, timing); did you mean 'score'?"


PLUGIN = """
from typing import ClassVar, Literal
from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check
class Fresh(Check):
    dimension: ClassVar[Literal["data"]] = "data"
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("fresh", "rows", "lower", "How fresh.", exact=True),)
    check: Literal["fresh_kind"] = "fresh_kind"
    def needs(self):
        return ()
    def run(self, inputs):
        raise ValueError("the milk is sour")
"""


def test_another_distribution_adds_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_distribution(tmp_path, "fresh-one", "evalspec.checks", "fresh_kind = fresh_module_one:Fresh", PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = discover()
    assert registry.checks["fresh_kind"].distribution == "fresh-one"
    assert registry.check("fresh_kind").dimension == "data"
    assert "fresh_kind" not in discover(plugins=False).checks


def test_a_distribution_that_comes_or_goes_meanwhile_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "late_kind" not in discover().checks
    add_distribution(tmp_path, "late", "evalspec.checks", "late_kind = late_module:Late")
    assert discover().checks["late_kind"].distribution == "late"
    entries = tmp_path / "late-1.0.dist-info" / "entry_points.txt"
    text, changed_ns = entries.read_text(), entries.stat().st_mtime_ns
    for written, kind in ((text.replace("late_kind", "later_kind"), "later_kind"), (text, "late_kind")):
        entries.write_text(written)
        # As some time later.
        changed_ns += 10**9
        os.utime(entries, ns=(changed_ns, changed_ns))
        assert {"late_kind", "later_kind"} & set(discover().checks) == {kind}
    shutil.rmtree(tmp_path / "late-1.0.dist-info")
    assert "late_kind" not in discover().checks


def test_a_name_that_is_taken_is_refused_with_both_distributions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_distribution(tmp_path, "fresh-two", "evalspec.sources", "parquet = fresh_module_two:Fresh")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SpecError) as caught:
        discover()
    assert str(caught.value) == (
        "the kind of dataset 'parquet' of fresh-two is already defined by evalspec-gate; uninstall one of the two"
    )


def test_two_strangers_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fresh-a", "fresh-b"):
        add_distribution(tmp_path / name, name, "evalspec.checks", f"fresh_kind = {name.replace('-', '_')}:Fresh")
        monkeypatch.syspath_prepend(str(tmp_path / name))
    with pytest.raises(SpecError, match=r"'fresh_kind' of fresh-[ab] is already defined by fresh-[ab]"):
        discover()


@pytest.mark.parametrize(
    ("module", "attribute", "why"),
    [
        ("no_such_module_here", "Check", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("tests.loading.doubles", "FileModel", "FileModel is not a Check"),
        ("tests.loading.doubles", "Nothing", "Nothing is not a Check"),
        ("tests.loading.doubles", None, "it must define one public Check, and holds 3"),
        ("tests.loading.doubles", "Score", "its field 'check' must be Literal['odd']"),
    ],
)
def test_what_can_t_be_used_says_why(module: str, attribute: str | None, why: str) -> None:
    registry = Registry(checks={"odd": KindEntry("odd", module, attribute, "odd-dist")}, runtimes={}, sources={})
    with pytest.raises(SpecError) as caught:
        registry.check("odd")
    assert str(caught.value) == f"'odd' of odd-dist ({module}) can't be used: {why}"


def test_a_check_in_the_wrong_folder_is_refused() -> None:
    found = KindEntry("score", "tests.loading.doubles", "Score", "evalspec-gate", "system")
    with pytest.raises(SpecError, match="its dimension is 'model', not system"):
        Registry(checks={"score": found}, runtimes={}, sources={}).check("score")


def test_missing_packages_are_named_with_the_line_that_installs_them() -> None:
    assert missing_packages(AbsentModel) == ("no_such_package_anywhere",)
    assert install_line(AbsentModel) == "pip install 'evalspec-gate[absent]'"
    extras = importlib.metadata.metadata("evalspec-gate").get_all("Provides-Extra") or []
    registry = discover(plugins=False)
    parts = [registry.runtime(kind) for kind in registry.kinds("runtimes")]
    parts += [registry.source(kind) for kind in registry.kinds("sources")]  # type: ignore[misc]  # both have packages
    assert {part.extra_name for part in parts if part.packages} <= set(extras)
