"""Ray: Core tasks on the nodes of a cluster. No Ray Data, and no Ray Client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.errors import EngineError
from evalspec.running.engines import node
from evalspec.running.engines.choice import EngineChoice
from evalspec.running.engines.cluster import Cluster, ClusterNode, Needs, TaskEnd

GET_S = 60.0
"""Longest time for the states of a leaf to come."""


class RayCluster(Cluster):
    """A Ray cluster on one of whose nodes this process runs.

    Args:
        choice: Its address.
        environment: Of the processes that look at leaves.
        needs: What a task takes.

    Raises:
        EngineError: It can't be reached.
    """

    name = "ray"

    def __init__(self, choice: EngineChoice, environment: Mapping[str, str], needs: Needs) -> None:
        import ray
        from ray import cloudpickle

        from evalspec.language.places import is_loopback

        self._ray: Any = ray
        self.version = str(ray.__version__)
        options: dict[str, Any] = {"_node_ip_address": choice.host} if is_loopback(choice.host) else {}
        try:
            ray.init(
                address=choice.address, log_to_driver=False, logging_level="ERROR", namespace="evalspec",
                runtime_env={"env_vars": dict(environment)}, **options,
            )  # fmt: skip
        except Exception as error:
            raise EngineError(
                f"ray at {choice.address} can't be reached: {_first_line(error)}; start evalspec on a node of the "
                "cluster, with Ray and Python of the same versions"
            ) from error
        cloudpickle.register_pickle_by_value(node)
        self._look = ray.remote(num_cpus=1, max_retries=0)(node.look)
        self._needs = needs
        self._keeper = ray.remote(num_cpus=needs.cpus, num_gpus=needs.gpus, max_restarts=0)(node.Keeper)
        self._keepers: dict[Any, Any] = {}
        """Actors that keep what was loaded, each with the task that it runs; None: none."""
        self._begun: dict[Any, Any] = {}
        """What each of them says as soon as it is somewhere."""
        self._ranges: dict[int, tuple[int, int]] = {}
        self._survey = ray.remote(num_cpus=0, max_retries=0)(node.survey)
        self._tasks: dict[Any, int] = {}
        self._job: tuple[bytes, Any] = (b"", None)

    def nodes(self) -> dict[str, ClusterNode]:
        alive = [one for one in self._ray.nodes() if one["Alive"] and self._at_once(one["Resources"])]
        addresses = [one["NodeManagerAddress"] for one in alive]
        return {one["NodeID"]: ClusterNode(_name(one, addresses), self._at_once(one["Resources"])) for one in alive}

    def _at_once(self, has: Mapping[str, float]) -> int:
        """Tasks that a node with these resources runs at once."""
        count = int(has.get("CPU", 0)) // self._needs.cpus
        return min(count, int(has.get("GPU", 0)) // self._needs.gpus) if self._needs.gpus else count

    def survey(self, packed: bytes, within_s: float) -> dict[str, bytes | str]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = {
            name: self._survey.options(scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False)).remote(
                packed
            )
            for name in self.nodes()
        }
        self._ray.wait(list(asked.values()), num_returns=max(1, len(asked)), timeout=within_s)
        return {name: self._answer(ref, 1.0) for name, ref in asked.items()}

    def submit(self, leaf: int, packed: bytes, start: int, stop: int) -> None:
        if self._job[0] != packed:
            self._job = packed, self._ray.put(packed)
        if not self._needs.stays:
            self._tasks[self._look.remote(self._job[1], start, stop)] = leaf
            return
        self._ranges[leaf] = start, stop
        self._send(self._free_keeper(), leaf)

    def _send(self, keeper: Any, leaf: int) -> None:
        """Have an actor look at a leaf."""
        self._keepers[keeper] = ref = keeper.look.remote(self._job[1], *self._ranges[leaf])
        self._tasks[ref] = leaf

    def _free_keeper(self) -> Any:
        """An actor that runs no task; where there is none, and room for no further one, one that does."""
        free = [keeper for keeper, ref in self._keepers.items() if ref is None]
        if free:
            return free[0]
        if self._keepers and len(self._keepers) >= sum(one.cpus for one in self.nodes().values()):
            return next(iter(self._keepers))
        keeper = self._keeper.remote()
        self._begun[keeper] = keeper.begun.remote()
        return keeper

    def ended(self, wait_s: float) -> Sequence[TaskEnd]:
        ready, waiting = self._ray.wait(list(self._tasks), num_returns=1, timeout=wait_s)
        if ready and waiting:
            more, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
            ready += more
        ends = []
        for ref in ready:
            answer, leaf = self._answer(ref, GET_S), self._tasks.pop(ref)
            self._release(ref, lost=isinstance(answer, str))
            ends.append(TaskEnd(leaf, None, answer) if isinstance(answer, str) else TaskEnd(leaf, answer))
        if not ends:
            self._make_room()
        return ends

    def _make_room(self) -> None:
        """Hand on tasks of actors that wait for the processor of a node which is gone: they would wait for ever."""
        over = len(self._keepers) - sum(one.cpus for one in self.nodes().values()) if self._keepers else 0
        if over <= 0:
            return
        nowhere = [one for one, ref in self._begun.items() if not self._ray.wait([ref], timeout=0)[0]]
        somewhere = sorted(
            (one for one in self._keepers if one not in nowhere), key=lambda one: self._keepers[one] is not None
        )
        for keeper in nowhere[:over] if somewhere else ():
            leaf = self._tasks.pop(self._keepers[keeper], None)
            self._drop(keeper)
            if leaf is not None:
                self._send(somewhere[0], leaf)

    def _drop(self, keeper: Any) -> None:
        del self._keepers[keeper], self._begun[keeper]
        self._ray.kill(keeper)

    def cancel(self, leaf: int) -> None:
        for ref in [ref for ref, other in self._tasks.items() if other == leaf]:
            if self._needs.stays:
                self._release(ref, lost=True)
            else:
                self._ray.cancel(ref, force=True)
            del self._tasks[ref]

    def _release(self, ref: Any, *, lost: bool) -> None:
        """Take note that an actor has ended a task; one that was lost, or is to be given up, runs no other."""
        mine = [keeper for keeper, other in self._keepers.items() if other == ref]
        for keeper in mine:
            self._keepers[keeper] = None
        # One that has nothing to do may have been on the same node.
        for keeper in [keeper for keeper, other in self._keepers.items() if other is None] if lost else ():
            self._drop(keeper)

    def close(self) -> None:
        self._ray.shutdown()

    def _answer(self, ref: Any, within_s: float) -> bytes | str:
        """Answer of a task, or why there is none, in words."""
        try:
            answer: bytes = self._ray.get(ref, timeout=within_s)
        except self._ray.exceptions.RaySystemError as error:
            raise EngineError(f"ray failed: {_first_line(error)}") from error
        except Exception as error:  # noqa: BLE001  # of whatever kind: Ray wraps what a node raises
            return _first_line(error)
        return answer


def _name(told: Mapping[str, Any], addresses: Sequence[str]) -> str:
    """Address of a node, with its port where several have the same."""
    address = str(told["NodeManagerAddress"])
    return address if addresses.count(address) == 1 else f"{address}:{told['NodeManagerPort']}"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
