"""Specs as pytest collects them: a file is a module, each of its requirements an item, and all share one run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evalspec.errors import EvalspecError, SpecError

if TYPE_CHECKING:
    from evalspec.front_door import Allow
    from evalspec.outcome import RequirementResult, Run

SPEC = re.compile(rb"^evalspec:\s*\d", re.MULTILINE)
"""The line of a YAML file that says it is a spec."""
SUFFIXES = (".yaml", ".yml")
HEAD_BYTES = 1 << 16
VERDICT = "verdict"
"""Item of the whole spec: also what no requirement says keeps it from passing."""
REPORT = "evalspec_report"
"""Property of an item: the page of its run."""


class Gates:
    """Collects specs and tells where their reports are."""

    def __init__(self, config: pytest.Config) -> None:
        """``config`` of this pytest."""
        self.config = config

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """A spec, named or lying in a folder that is collected."""
        if file_path.suffix not in SUFFIXES:
            return None
        named = parent.session.isinitpath(file_path)
        if not named and not _is_spec(file_path):
            return None
        file: SpecFile = SpecFile.from_parent(parent, path=file_path)
        return file

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the reports."""
        reports = [one for many in terminalreporter.stats.values() for one in many]
        pages = {value for one in reports for name, value in getattr(one, "user_properties", ()) if name == REPORT}
        for page in sorted(pages):
            terminalreporter.write_line(f"evalspec: {page}")


def _is_spec(path: Path) -> bool:
    """True of a spec, and not of the copy that a run keeps of its own."""
    try:
        with path.open("rb") as file:
            return SPEC.search(file.read(HEAD_BYTES)) is not None and not (path.parent / "record.json").exists()
    except OSError:
        return False


class SpecFile(pytest.File):
    """A spec; it is run when the first of its items is."""

    _run: Run | None = None
    _failure: EvalspecError | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """An item for each requirement, in the order of the spec, and one for the verdict."""
        from evalspec.front_door import load

        spec = load(self.path, allow=self._allow())
        names = [one.name(check.name) for check in spec.checks for one in check.requirements]
        grouped = self.config.pluginmanager.hasplugin("xdist")
        for name in (*names, VERDICT):
            item: RequirementItem = RequirementItem.from_parent(self, name=name)
            if grouped:
                item.add_marker(pytest.mark.xdist_group(str(self.path)))
            yield item

    def repr_failure(  # type: ignore[override]  # as that of pytest's own collectors
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> Any:
        """Problems of the spec, a line each."""
        if isinstance(excinfo.value, SpecError):
            return "\n".join(str(problem) for problem in excinfo.value.problems)
        return super().repr_failure(excinfo)

    def _allow(self) -> Allow:
        from evalspec.front_door import Allow

        return Allow(trust=bool(self.config.getoption("--evalspec-trust")))

    def outcome(self) -> Run:
        """The run of the spec, made once, whichever of pytest-xdist's processes comes first.

        Raises:
            EvalspecError: It could not be run; the same for each of its items.
        """
        if self._failure is not None:
            raise self._failure
        if self._run is None:
            try:
                self._run = self._shared() if hasattr(self.config, "workerinput") else self._made()
            except EvalspecError as error:
                self._failure = error
                raise
        return self._run

    def _made(self) -> Run:
        from evalspec.front_door import run

        parent = self.config.getoption("--evalspec-output")
        output = None if parent is None else Path(parent) / self._place()
        return run(self.path, allow=self._allow(), output=output)

    def _place(self) -> str:
        """Folder of its runs below that of all: where the spec lies, as one name."""
        with contextlib.suppress(ValueError):
            return "-".join(self.path.relative_to(self.config.rootpath).with_suffix("").parts)
        return self.path.stem

    def _common(self) -> Path:
        """A folder that all processes of pytest-xdist see, and that pytest removes."""
        factory: pytest.TempPathFactory | None = getattr(self.config, "_tmp_path_factory", None)
        return Path(tempfile.gettempdir()) if factory is None else factory.getbasetemp().parent

    def _shared(self) -> Run:
        """The run that one process makes and the others wait for."""
        from evalspec.front_door import read

        session = self.config.workerinput["testrunuid"]  # type: ignore[attr-defined]  # xdist puts it there
        name = hashlib.sha256(f"{session} {self.path}".encode()).hexdigest()[:32]
        note = self._common() / f"evalspec-{name}.json"
        with _locked(note.with_suffix(".lock")):
            if note.is_file():
                said = json.loads(note.read_text(encoding="utf-8"))
                if said["failure"] is not None:
                    raise EvalspecError(said["failure"])
                return read(said["folder"])
            try:
                made = self._made()
            except EvalspecError as error:
                note.write_text(json.dumps({"failure": str(error), "folder": None}), encoding="utf-8")
                raise
            note.write_text(json.dumps({"failure": None, "folder": str(made.folder)}), encoding="utf-8")
            return made


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes wait for; where the system has none, nobody waits."""
    with path.open("a") as file:
        try:
            import fcntl
        except ImportError:
            pass
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class NotMet(Exception):
    """Raised for a requirement that does not hold; it has no traceback that says more."""


class RequirementItem(pytest.Item):
    """One requirement, or the verdict."""

    parent: SpecFile

    def setup(self) -> None:
        """Run the spec, if nobody has; what could not be measured for a crash is an error, not a failure."""
        made = self.parent.outcome()
        self.user_properties.append((REPORT, str(made.report)))
        if self.name == VERDICT:
            return
        one = made.requirement(self.name)
        self.user_properties += [("value", f"{one.value} {one.unit}".strip()), ("n", one.n)]
        if one.status == "ERROR":
            raise NotMet(_told(one, made))

    def runtest(self) -> None:
        """Pass what holds, and nothing else that blocks."""
        made = self.parent.outcome()
        if self.name == VERDICT:
            if not made.ready:
                raise NotMet(f"{made.verdict.headline}: {made.verdict.reason}\nreport: {made.report}")
            return
        one = made.requirement(self.name)
        if one.status == "PASS":
            return
        if one.waived:
            pytest.skip(f"waived; {one.sentence}")
        if not one.blocking or made.ready:
            # It warns, or the policy lets it pass undecided.
            pytest.xfail(one.sentence)
        raise NotMet(_told(one, made))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The sentence; of a spec that can't be run, why."""
        if isinstance(excinfo.value, NotMet | EvalspecError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands: in the spec."""
        return self.path, None, self.name


def _told(one: RequirementResult, made: Run) -> str:
    return f"{one.status} {one.name}: {one.sentence}\nreport: {made.report}"
