"""Whole servers of vLLM on the CPU, prefill and decode apart, for frameworks/run.

    vllm_server_driver.py driver pull|push DIRECTORY BACKEND

Three servers have one small model with random weights: plain, which knows nothing of transfers, and prefill and decode. Each prompt goes to
prefill, and with what that answers to decode, whose tokens must be those of plain. That decode had them from prefill's KV cache is shown
twice: its bytes are counted, and decode, given one of two prompts of one length with the KV cache of the other, answers the other. Then
decode is killed in the middle of requests, and prefill serves the decode server that comes after it.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

from exchange import ADDRESS, end_group, free_port, processes_of_group, wait_for, write_model

LAYERS, HEADS, HEAD_SIZE, VOCABULARY = 4, 8, 64, 1000
BLOCK_TOKENS, CACHE_BYTES = 32, 1 << 29
BLOCK_BYTES = LAYERS * 2 * HEADS * HEAD_SIZE * 4 * BLOCK_TOKENS  # keys and values, of 4 bytes
LENGTHS = (1, 2, 31, 32, 33, 64, 100, 333, 640, 777, 1000, 1000, 1024, 1500, 1999, 2000)
TOKENS, AT_ONCE = 24, 6
START_S, ANSWER_S, COUNT_S, END_S = 400, 60, 10, 20


def write_weights(model):
    """Random ones with which every token has its say: attention is sharp, and what is likeliest stands out."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(7)
    hidden, inner = HEADS * HEAD_SIZE, 1024

    def matrix(rows, columns, gain=1.0):
        return torch.randn(rows, columns, generator=generator) * gain / columns ** 0.5

    weights = {"model.embed_tokens.weight": matrix(VOCABULARY, hidden, hidden ** 0.5), "lm_head.weight": matrix(VOCABULARY, hidden),
               "model.norm.weight": torch.ones(hidden)}
    for layer in (f"model.layers.{index}" for index in range(LAYERS)):
        weights |= {f"{layer}.{norm}_layernorm.weight": torch.ones(hidden) for norm in ("input", "post_attention")}
        weights |= {f"{layer}.self_attn.{name}_proj.weight": matrix(hidden, hidden, gain)
                    for name, gain in (("q", 1.5), ("k", 1.5), ("v", 2), ("o", 2))}
        weights |= {f"{layer}.mlp.{name}_proj.weight": matrix(inner, hidden) for name in ("gate", "up")}
        weights[f"{layer}.mlp.down_proj.weight"] = matrix(hidden, inner)
    save_file(weights, model / "model.safetensors", {"format": "pt"})


class Server:
    """vLLM's, in a process group of its own. As a module: the command `vllm serve` does not find its own version in the wheel for CPUs."""

    def __init__(self, name, directory, transfer=None):
        self.name, self.log, self.port = name, directory / f"{name}.log", free_port()
        self.stats = directory / f"{name}.prom"
        arguments = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(directory / "model"),
                     "--served-model-name", "model", "--skip-tokenizer-init", "--enforce-eager", "--dtype", "float32",
                     "--host", ADDRESS, "--port", str(self.port), "--max-model-len", "2048",
                     "--block-size", str(BLOCK_TOKENS), "--kv-cache-memory-bytes", str(CACHE_BYTES),
                     "--no-enable-prefix-caching", "--disable-uvicorn-access-log",
                     "--shutdown-timeout", "10"]  # without it the worker is killed, and an shm endpoint leaves a file
        if transfer:
            arguments += ["--kv-transfer-config", json.dumps(transfer)]
        environment = os.environ | {
            "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
            "VLLM_NIXL_SIDE_CHANNEL_HOST": ADDRESS, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()), "RAILYARD_STATS_FILE": str(self.stats)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            process_group=0)

    def ask(self, path, body=None, name=""):
        request = urllib.request.Request(f"http://{ADDRESS}:{self.port}{path}", None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "X-Request-Id": name})
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            return answer.read().decode()

    def ready(self):
        if self.process.poll() is not None:
            raise ChildProcessError(f"{self.name} ended with status {self.process.returncode}")
        try:
            self.ask("/health")
            return True
        except OSError:
            return False

    def complete(self, prompt, tokens=TOKENS, transfer=None, name=""):
        """The tokens after the prompt, and what the router is told of the transfer."""
        body = {"model": "model", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "detokenize": False,
                "return_token_ids": True}
        answer = json.loads(self.ask("/v1/completions", body | ({"kv_transfer_params": transfer} if transfer else {}), name))
        return answer["choices"][0]["token_ids"], answer.get("kv_transfer_params")

    def transferred(self, operation):
        """The bytes that Railyard says it has written or read."""
        counts = rf'^railyard_peer_bytes_total{{[^}}]*operation="{operation}"[^}}]*}} (\d+)'
        return sum(map(int, re.findall(counts, self.stats.read_text(), re.MULTILINE)))

    def kill(self):
        """All of its processes, but the one that takes Python's shared memory away once they are gone; that of an shm endpoint is left."""
        processes = processes_of_group(self.process.pid)
        for process in processes:
            with contextlib.suppress(OSError):
                if "resource_tracker" not in pathlib.Path(f"/proc/{process}/cmdline").read_text():
                    os.kill(process, signal.SIGKILL)
        end_group(self.process, END_S)
        for process in processes:
            for file in pathlib.Path("/dev/shm").glob(f"{process}[-:]*"):
                file.unlink(missing_ok=True)


def through_both(prefill, decode, prompt, asked=None):
    """What a router does: prefill computes the prompt, decode has its KV cache. Both know the request by one name: push looks for it."""
    name = str(uuid.uuid4())
    _, transfer = prefill.complete(prompt, 1, {"do_remote_decode": True, "do_remote_prefill": False}, name)
    return decode.complete(asked or prompt, TOKENS, transfer, name)[0]


def all_at_once(ask, prompts):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(ask, prompts))


def check(prompts, answers, expected):
    for prompt, answer, right in zip(prompts, answers, expected):
        if answer != right:
            raise RuntimeError(f"after a prompt of {len(prompt)} tokens {answer}, and not {right}")


def drive(mode, directory, backend, servers):
    write_model(directory / "model", LAYERS, HEADS, HEAD_SIZE, VOCABULARY)
    write_weights(directory / "model")
    choice = random.Random(7)
    prompts = [[choice.randrange(3, VOCABULARY) for _ in range(length)] for length in LENGTHS]
    one, other = (prompt for prompt in prompts if len(prompt) == 1000)
    other[-1] = one[-1]  # decode computes the last token itself

    def start(name, role=None):
        transfer = {"kv_connector": "NixlConnector" if mode == "pull" else "NixlPushConnector", "kv_role": role,
                    "kv_buffer_device": "cpu", "kv_load_failure_policy": "fail", "kv_connector_extra_config": {"backends": [backend]}}
        servers.append(Server(name, directory, transfer if role else None))
        return servers[-1]

    def ready(*started):
        for server in started:
            wait_for(f"{server.name} to start", START_S, server.ready, 0.5)

    plain, prefill, decode = start("plain"), start("prefill", "kv_producer"), start("decode", "kv_consumer")
    ready(plain, prefill, decode)
    expected = all_at_once(lambda prompt: plain.complete(prompt)[0], prompts)
    end_group(plain.process, END_S)
    if len(set(map(tuple, expected))) < len(expected):
        raise RuntimeError("a model that answers two prompts alike shows nothing")
    begin = time.monotonic()
    check(prompts, all_at_once(lambda prompt: through_both(prefill, decode, prompt), prompts), expected)
    took = time.monotonic() - begin
    bytes_of_all = sum(-(-length // BLOCK_TOKENS) for length in LENGTHS) * BLOCK_BYTES
    mover, operation = (decode, "read") if mode == "pull" else (prefill, "write")
    wait_for(f"{bytes_of_all} bytes to be counted by {mover.name}", COUNT_S, lambda: mover.transferred(operation) == bytes_of_all, 0.2)
    if through_both(prefill, decode, one, asked=other) != expected[prompts.index(one)]:
        raise RuntimeError("decode has not answered by what prefill had computed")

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        under_way = [pool.submit(through_both, prefill, decode, prompt) for prompt in prompts]
        next(concurrent.futures.as_completed(under_way, ANSWER_S))
        decode.kill()
    lost = sum(request.exception() is not None for request in under_way)
    check(prompts, [right if request.exception() else request.result() for request, right in zip(under_way, expected)], expected)
    if not lost:
        raise RuntimeError("decode was killed after all was done")
    successor = start("successor", "kv_consumer")
    ready(successor)
    check(prompts, all_at_once(lambda prompt: through_both(prefill, successor, prompt), prompts), expected)
    print(f"vllm-server {mode}: {len(prompts)} prompts of {sum(LENGTHS)} tokens, {AT_ONCE} at a time, answered as without a transfer in "
          f"{took:.1f} s, with {bytes_of_all} bytes by {operation}; decode was killed, {lost} requests were lost, "
          "its successor did the same", flush=True)


def main():
    mode, directory, backend = sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    servers = []
    try:
        drive(mode, directory, backend, servers)
    except BaseException as why:
        for server in servers:
            with contextlib.suppress(OSError):
                print(f"--- {server.name}", *server.log.read_text(errors="replace").splitlines()[-12:], sep="\n")
        if isinstance(why, urllib.error.HTTPError):
            print(why.read().decode(errors="replace"))
        raise
    finally:
        for server in servers:
            end_group(server.process, END_S)


if __name__ == "__main__":
    main()
