"""How fast one client process of ours drives a server in an open loop, beside wrk, A B A B in one run.

    python tests/benchmarks/http_client.py [--rounds 3] [--seconds 3] [--clients 2]

Needs nginx and wrk (Debian: nginx-light, wrk). nginx, one worker on loopback, answers a fixed JSON body. wrk asks with
64 connections as fast as it can; then one client of ours, as the runs use it, sends at rising rates. Printed for each
rate: the rate that was served, p99 of the client's lag, p50 and p99 latency from the due time, and whether the lag
would void the run. Then the same rate by several client processes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from evalspec.clocks import now_ns  # noqa: E402
from evalspec.language.timings import ANSWERED  # noqa: E402
from evalspec.runtimes.http_client.open_loop import Client  # noqa: E402
from evalspec.runtimes.http_client.pool import Outcome  # noqa: E402
from evalspec.runtimes.http_client.wire import parse_url, request_bytes  # noqa: E402

PORT = 18480
URL = f"http://127.0.0.1:{PORT}"
BODY = '{"model_name":"m","outputs":[{"name":"y","shape":[1,2],"datatype":"FP32","data":[0.25,0.75]}]}'
CONFIG = """
worker_processes 1;
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{ listen 127.0.0.1:{port}; location / {{ default_type application/json; return 200 '{body}'; }} }}
}}
"""
QUERY = json.dumps({"inputs": [{"name": "x", "shape": [1, 64], "datatype": "FP32", "data": [0.5] * 64}]}).encode()
LAG_MS = 2.0


def drive(rate: float, seconds: float, seed: int, start_ns: int | None = None) -> dict[str, float]:
    """One open loop of Poisson arrivals by this process."""
    address = parse_url(URL)
    count = int(rate * seconds)
    client = Client(address, 64, 10 * 10**9)
    client.open(5.0)
    requests = [request_bytes(address, "/v2/models/m/infer", {"Content-Type": "application/json"}, QUERY)] * count
    offsets = np.cumsum(np.random.default_rng(seed).exponential(1e9 / rate, count))
    due = (start_ns or now_ns() + 50_000_000) + offsets.astype(np.int64)
    found: list[Outcome] = [Outcome()] * count
    # Whoever can't keep up is not waited for.
    client.until_ns = int(due[-1]) + 2 * 10**9
    busy = time.process_time()
    client.run(requests, due.tolist(), found.__setitem__)
    busy = time.process_time() - busy
    client.close()
    sent = np.array([one.sent_ns for one in found]) > 0
    end = np.array([one.end_ns for one in found])
    ok = np.array([one.outcome == ANSWERED for one in found]) & sent
    latency = (end - due)[ok] / 1e6
    return {
        "asked": rate,
        "served": float(ok.sum() / ((end[ok].max() - due[0]) / 1e9)),
        "failed": int((~ok).sum()),
        "lag_p99_ms": float(np.quantile(np.array([one.lag_ns for one in found])[sent], 0.99) / 1e6),
        "p50_ms": float(np.quantile(latency, 0.5)),
        "p99_ms": float(np.quantile(latency, 0.99)),
        "cpu": busy / seconds,
    }


def several(rate: float, seconds: float, clients: int) -> list[dict[str, float]]:
    """The same rate by several processes that start together."""
    start = now_ns() + 1_500_000_000
    command = [sys.executable, __file__, "--client", json.dumps([rate / clients, seconds, start])]
    running = [
        subprocess.Popen([*command, "--seed", str(seed)], stdout=subprocess.PIPE, text=True) for seed in range(clients)
    ]
    return [json.loads(one.communicate()[0]) for one in running]


def wrk(seconds: float) -> float:
    command = ["wrk", "-t1", "-c64", f"-d{max(1, round(seconds))}s", URL]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", told)
    if found is None:
        raise SystemExit(told)
    return float(found[1])


def show(name: str, one: dict[str, float]) -> None:
    verdict = "kept up" if one["lag_p99_ms"] < LAG_MS and not one["failed"] else "INVALID: the client is the bottleneck"
    print(f"{name:24} asked {one['asked']:>7,.0f}/s served {one['served']:>7,.0f}/s  {verdict}")
    print(
        f"{'':24} lag p99 {one['lag_p99_ms']:.3f} ms, latency p50 {one['p50_ms']:.3f} p99 {one['p99_ms']:.3f} ms, "
        f"processor {one['cpu']:.0%}"
    )


def rounds(options: argparse.Namespace) -> None:
    asked = []
    for number in range(options.rounds):
        peer = wrk(options.seconds)
        asked.append(peer)
        print(f"round {number + 1}: wrk, 64 connections: {peer:,.0f}/s")
        for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5):
            one = drive(share * peer, options.seconds, number)
            show(f"one client, {share:.0%} of wrk", one)
            if one["lag_p99_ms"] >= LAG_MS:
                parts = several(share * peer, options.seconds, options.clients)
                both = {name: max(part[name] for part in parts) for name in parts[0]}
                both |= {name: sum(part[name] for part in parts) for name in ("asked", "served", "failed")}
                show(f"{options.clients} clients, {share:.0%} of wrk", both)
    print(f"wrk, median of {options.rounds}: {statistics.median(asked):,.0f}/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        rate, seconds, start = json.loads(options.client)
        print(json.dumps(drive(rate, seconds, options.seed, start)))
        return
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None or shutil.which("wrk") is None:
        raise SystemExit("nginx and wrk are needed: apt-get install nginx-light wrk")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        config = Path(folder) / "nginx.conf"
        config.write_text(CONFIG.format(folder=folder, port=PORT, body=BODY))
        with subprocess.Popen([nginx, "-c", str(config), "-e", f"{folder}/error.log"]) as server:
            time.sleep(0.5)
            try:
                rounds(options)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
