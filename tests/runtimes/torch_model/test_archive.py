"""Archives that try to run code: each does when it is trusted, and none when it is not."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.runtimes.torch import Torch
from evalspec.runtimes.torch_model.archive import harmless_expression, harmless_treespec, inspect_archive
from tests.runtimes.test_torch import Touch

Records = dict[str, bytes]
Attack = Callable[[Records, str], None]


def rebuilt(source: Path, target: Path, attack: Attack, marker: str) -> None:
    """The archive again, with records changed."""
    with zipfile.ZipFile(source) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    root = next(iter(records)).split("/")[0]
    short = {name.removeprefix(root + "/"): content for name, content in records.items()}
    attack(short, marker)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in short.items():
            archive.writestr(f"{root}/{name}", content)


def edit(records: Records, change: Callable[[Any], None]) -> None:
    program = json.loads(records["models/model.json"])
    change(program)
    records["models/model.json"] = json.dumps(program).encode()


def pickled_constant(records: Records, marker: str) -> None:
    records["data/constants/opaque_obj_0"] = pickle.dumps(Touch(marker))
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    records["data/constants/model_constants_config.json"] = json.dumps({"config": {"evil": entry}}).encode()


def pickled_example(records: Records, marker: str) -> None:
    import torch

    buffer = io.BytesIO()
    torch.save(((Touch(marker),), {}), buffer)
    records["data/sample_inputs/model.pt"] = buffer.getvalue()


def code_in_a_size(records: Records, marker: str) -> None:
    code = f"__import__('os').mkdir({marker!r})"

    def change(program: Any) -> None:
        sizes = program["graph_module"]["graph"]["tensor_values"]["input"]["sizes"]
        sizes[0]["as_expr"]["expr_str"] = code

    edit(records, change)


def code_in_a_guard(records: Records, marker: str) -> None:
    edit(records, lambda program: program.update(guards_code=[f"__import__('os').mkdir({marker!r}) is None"]))


def code_in_an_argument(records: Records, marker: str) -> None:
    def change(program: Any) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        signature["forward_arg_names"] = [f"x=__import__('os').mkdir({marker!r})"]

    edit(records, change)


RUNS = [pickled_constant, pickled_example, code_in_a_size, code_in_a_guard]


@pytest.mark.parametrize("attack", [*RUNS, code_in_an_argument])
def test_code_in_an_archive_does_not_run(tmp_path: Path, access: Access, linear_pt2: Path, attack: Attack) -> None:
    marker = tmp_path / "ran"
    rebuilt(linear_pt2, tmp_path / "evil.pt2", attack, str(marker))
    with pytest.raises(
        InputError, match=r"'evil.pt2' (can't be shown to be free of code|holds a pickle).*pass --trust"
    ):
        Torch(path="evil.pt2").load(access, threads=1)
    assert not marker.exists()


@pytest.mark.parametrize("attack", RUNS)
def test_the_same_code_runs_where_it_is_trusted(
    tmp_path: Path, trusted: Access, linear_pt2: Path, attack: Attack
) -> None:
    # Shows that the archives above are real attacks: without the inspection they would run.
    marker = tmp_path / "ran"
    rebuilt(linear_pt2, tmp_path / "evil.pt2", attack, str(marker))
    with contextlib.suppress(InputError):
        loaded = Torch(path="evil.pt2").load(trusted, threads=1)
        loaded.predict({"input": np.zeros((2, 4), dtype=np.float32)})
    assert marker.exists()


def test_what_is_refused_is_named(tmp_path: Path, access: Access, linear_pt2: Path) -> None:
    def refused(attack: Attack) -> str:
        rebuilt(linear_pt2, tmp_path / "evil.pt2", attack, "/nowhere")
        with pytest.raises(InputError) as caught:
            inspect_archive(tmp_path / "evil.pt2", "evil.pt2", access)
        return str(caught.value)

    assert "the constant 'evil' (opaque_obj_0) is a pickled object; pass --trust" in refused(pickled_constant)
    assert "expr_str \"__import__('os').mkdir('/nowhere'" in refused(code_in_a_size)
    assert "guards_code" in refused(code_in_a_guard)
    assert "forward_arg_names" in refused(code_in_an_argument)

    def other_operator(records: Records, marker: str) -> None:
        edit(records, lambda program: program["graph_module"]["graph"]["nodes"][0].update(target="torch.os.system"))

    assert "target 'torch.os.system'" in refused(other_operator)

    def file_operator(records: Records, marker: str) -> None:
        name = "torch.ops.aten.from_file.default"
        edit(records, lambda program: program["graph_module"]["graph"]["nodes"][0].update(target=name))

    assert "aten.from_file" in refused(file_operator)

    def compiled(records: Records, marker: str) -> None:
        records["data/aotinductor/model/code.so"] = b"\x7fELF"

    assert "holds compiled code (data/aotinductor/model/code.so); pass --trust" in refused(compiled)

    def strange(records: Records, marker: str) -> None:
        records["code/something"] = b""

    assert "unknown record 'code/something'" in refused(strange)


def test_the_old_format_is_refused(tmp_path: Path, access: Access) -> None:
    # torch falls back to it, and to another reader, when the new one can't read the file.
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as archive:
        archive.writestr("version", "8.1")
        archive.writestr("serialized_state_dict.pt", pickle.dumps(Touch(str(tmp_path / "ran"))))
    with pytest.raises(InputError, match=r"in the format of torch 2.7 or older"):
        Torch(path="old.pt2").load(access)
    assert not (tmp_path / "ran").exists()


def test_a_compiled_archive_wants_its_inputs_named(tmp_path: Path, trusted: Access, linear_pt2: Path) -> None:
    def compiled(records: Records, marker: str) -> None:
        records["data/aotinductor/model/code.so"] = b"\x7fELF"

    rebuilt(linear_pt2, tmp_path / "aot.pt2", compiled, "")
    with pytest.raises(InputError, match=r"is compiled and does not name its inputs"):
        Torch(path="aot.pt2").load(trusted)


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Add(FloorDiv(Symbol('s77', positive=True, integer=True), Integer(2)), Integer(1))",
        "2*s0 + 1",
        "Max(1, s0 - 3)",
    ],
)
def test_expressions_that_torch_writes_are_harmless(text: str) -> None:
    assert harmless_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "Symbol('s').__class__",
        "Symbol(\"s\", **{'a': 1})[0]",
        "open('x')",
        "eval('1')",
        "(lambda: 1)()",
        "[x for x in (1,)]",
        "Max('a')",
        "f'{s0}'",
        "s0 if s0 else s0",
        "1 +",
    ],
)
def test_expressions_that_are_code_are_not(text: str) -> None:
    assert not harmless_expression(text)
    assert not harmless_expression(text, guard=True)


def test_guards_may_look_at_sizes_only() -> None:
    assert harmless_expression("L['x'].size()[1] == 4", guard=True)
    assert not harmless_expression("L['x'].size()[1] == 4")
    assert not harmless_expression("L['x'].tofile('a') == 4", guard=True)


def test_structures() -> None:
    def spec(kind: str | None, context: str | None = "null") -> str:
        return json.dumps([1, {"type": kind, "context": context, "children_spec": []}])

    assert harmless_treespec(spec("builtins.tuple"))
    assert harmless_treespec(spec("builtins.dict", '["a", "b"]'))
    assert not harmless_treespec(spec("collections.defaultdict", '{"default_factory_module": "os"}'))
    assert not harmless_treespec(spec("builtins.dict", '{"__enum__": true, "fqn": "antigravity:x", "name": "a"}'))
    assert not harmless_treespec("no json")
