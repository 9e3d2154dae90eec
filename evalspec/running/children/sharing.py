"""One child for all checks, one after the other: a process for each would take longer than most of them."""

from __future__ import annotations

import base64
import contextlib
import pickle
from collections.abc import Iterable
from importlib import import_module

from evalspec.errors import EvalspecError, WorkerError
from evalspec.imports import import_whole, numpy_without_tools, uncollected
from evalspec.language.parts import Check, NeedTiming
from evalspec.running.children.child import Handler
from evalspec.running.children.jobs import CheckJob
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.process import MOST_IDLE_BYTES, Child, resident_bytes
from evalspec.running.children.scans import MOST_BYTES, Ahead, Scans
from evalspec.running.children.workers import MOST_AHEAD, StartedAhead
from evalspec.running.subjects import Children

Heir = tuple[str, str]
"""A check, and a model that it times."""


class SharedChild:
    """Runs checks one after the other in one child; one that kills it, or leaves it full, leaves the next a new one.

    Checks that look at the same rows share a pass over them. Where one dies of that, it runs again by itself, and no
    pass is shared any more.
    """

    def __init__(self, children: Children) -> None:
        """``children`` of the run."""
        self._children = children
        self._open = contextlib.ExitStack()
        self._child: Child | None = None
        self._screened: tuple[Child, str] | None = None
        self._keeps = False
        self._alone = False
        self._begins = False

    def begin(self, checks: Iterable[Check], *, foreign_code: bool = True) -> None:
        """Start the child, which imports what these checks need while something else goes on.

        Args:
            checks: Those that run first.
            foreign_code: As in `SpecParts`.
        """
        # A check in a single file has a `run` of its own, and no module that this could import.
        kinds = [type(one) for one in checks if type(one).run is Check.run]
        modules = tuple(dict.fromkeys(one.room_path("measure") for one in kinds))
        if modules:
            self._ready().tell({"do": "begin", "imports": modules, "foreign": foreign_code})
            self._begins = True

    def ask(
        self, job: CheckJob, *, progress: Progress, time_s: float, ahead: Ahead = (), heir: Heir | None = None
    ) -> Message:
        """Answer to a check's job, as a child of its own would give it.

        Args:
            job: The check's.
            progress: Told how far it has come.
            time_s: Longest time for the answer.
            ahead: Checks that come later and look at rows as this one does.
            heir: The next check, which times a model in the same processes.

        Raises:
            EvalspecError: As that child would raise it.
        """
        ahead = () if self._alone else ahead
        try:
            return self._ask(job, progress, time_s, ahead, heir)
        except WorkerError:
            if not ahead:
                raise
            self._alone = True
            self.close()
        return self._ask(job, progress, time_s, (), heir)

    def _ask(self, job: CheckJob, progress: Progress, time_s: float, ahead: Ahead, heir: Heir | None) -> Message:
        child = self._ready()
        packed = packed_job((job, ahead, heir))
        self._keeps = False
        answer = child.ask({"do": "run", "job": packed}, progress=progress, time_s=time_s)
        self._keeps = answer["keeps"]
        return answer

    def load_ahead(self, job: CheckJob, need: NeedTiming) -> None:
        """Have the processes that a later check times load its model while others are measured.

        Args:
            job: Of that check, as far as it is known.
            need: The first that it times.
        """
        # What can't be started now is told by the check.
        with contextlib.suppress(EvalspecError):
            question = {"do": "ahead", "job": packed_job(job), "model": need.model, "dataset": need.dataset}
            self._ready().ask(question)

    def screen(self, packed: str, name: str, *, progress: Progress, time_s: float) -> Message:
        """Let a screen look.

        Args:
            packed: The job of the screens.
            name: The screen.
            progress: As of a check.
            time_s: Longest time for the answer.

        Raises:
            EvalspecError: It could not look.
        """
        child = self._ready()
        known = self._screened == (child, packed)
        self._screened = (child, packed)
        question = {"do": "screen", "job": "" if known else packed, "screen": name}
        return child.ask(question, progress=progress, time_s=time_s)

    def _ready(self) -> Child:
        if self._child is None or not self._child.alive or self._full(self._child):
            self.close()
            self._child = self._open.enter_context(self._children.start(__name__, None, "checks"))
        if self._begins:
            self._begins = False
            try:
                self._child.answer()
            except EvalspecError:
                # What can't be imported is told by the check that needs it.
                return self._ready()
        return self._child

    def _full(self, child: Child) -> bool:
        """True where the child holds so much that the next check had better have a new one, with all of its memory.

        Watchers kept for later checks may hold as much again.
        """
        return resident_bytes(child.pid, below=False) > (2 if self._keeps else 1) * MOST_BYTES

    def rest(self) -> None:
        """Let the child go before something is timed, unless it is small: it then sleeps until screens look."""
        if self._child is not None and resident_bytes(self._child.pid, below=False) > MOST_IDLE_BYTES:
            self.close()

    def close(self) -> None:
        """Let the child go."""
        self._open.close()
        self._child = None
        self._begins = False


def _nothing() -> None:
    """Load no more than a module loads by itself."""


def packed_job(job: object) -> str:
    """A job as a message holds it."""
    return base64.b64encode(pickle.dumps(job)).decode("ascii")


def taken_over(
    job: CheckJob, loaded: dict[Heir, StartedAhead], left: dict[Heir, tuple[CheckJob, list[Child]]]
) -> dict[str, StartedAhead]:
    """Workers that are there for a check, by model; all others are ended, since nothing may stay beside it.

    Args:
        job: The check's.
        loaded: Workers that were started for a check; emptied.
        left: Workers that were left to a check, and the job that they were started for; emptied.
    """
    from evalspec.running.timing import fresh_workers

    mine: dict[str, StartedAhead] = {}
    for heir in [one for one in left if one[0] == job.check.name]:
        earlier, workers = left[heir]
        if job.starts_workers_as(earlier) and all(one.alive for one in workers):
            mine[heir[1]] = fresh_workers(job, heir[1], {}, ready=left.pop(heir)[1])
    for heir in [one for one in loaded if one[0] == job.check.name and one[1] not in mine]:
        mine[heir[1]] = loaded.pop(heir)
    close_all(loaded, left)
    return mine


def close_all(loaded: dict[Heir, StartedAhead], left: dict[Heir, tuple[CheckJob, list[Child]]]) -> None:
    """End workers that wait for a check, and forget them; as in `taken_over`."""
    for fresh in loaded.values():
        fresh.close()
    for _, workers in left.values():
        for one in workers:
            one.close()
    loaded.clear()
    left.clear()


def prepare() -> None:
    """Import what every check needs."""
    numpy_without_tools()
    from evalspec.running.children import checking, screening  # noqa: F401


def start(job: None) -> Handler:
    """The handler of the shared child."""
    numpy_without_tools()

    from evalspec.running.children import checking
    from evalspec.running.children.screening import Screener
    from evalspec.running.timing import fresh_workers

    scans, screener = Scans(), Screener()
    loaded: dict[Heir, StartedAhead] = {}
    """Workers that were started for a check."""
    left: dict[Heir, tuple[CheckJob, list[Child]]] = {}
    """Workers that were left to a check, and the job that they were started for."""

    def handle(question: Message, progress: Progress) -> Message:
        if question["do"] == "begin":
            if question["foreign"]:
                import_whole()
            with uncollected():
                for module in question["imports"]:
                    with contextlib.suppress(ImportError):
                        getattr(import_module(module), "load_ahead", _nothing)()
            return {}
        if question["do"] == "screen":
            close_all(loaded, left)
            return screener.handle(question, progress)
        # It comes from the process that started this one, over a socket that nobody else has.
        one: CheckJob
        if question["do"] == "ahead":
            one, model = pickle.loads(base64.b64decode(question["job"])), question["model"]
            fresh = loaded[one.check.name, model] = fresh_workers(one, model, {})
            fresh.begin(MOST_AHEAD, question["dataset"])
            return {}
        one, ahead, heir = pickle.loads(base64.b64decode(question["job"]))
        scans.expect(one.check.name, ahead)
        mine = taken_over(one, loaded, left) if one.check.dimension == "system" else {}
        if heir is None:
            answer = checking.answer(one, progress, scans, mine)
        else:
            model = heir[1]
            workers = mine[model] = mine.get(model) or fresh_workers(one, model, {})
            workers.keep()
            try:
                answer = checking.answer(one, progress, scans, mine)
            finally:
                left[heir] = one, workers.kept()
        return {**answer, "keeps": scans.kept > 0}

    return handle
