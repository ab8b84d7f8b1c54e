"""One worker of vLLM with nothing but its NixlConnector and a KV cache in host memory, for frameworks/run.

    vllm_worker.py prefill|decode pull|push DIRECTORY BACKEND

Both sides fill `DIRECTORY` with what a router would tell the other. `decode` has ROUNDS requests served, each of other blocks, and compares
its whole cache after each of them. There is no model and no attention: what is vLLM's is all that reaches NIXL.
"""

import os
import pathlib
import random
import sys
import time

from exchange import ADDRESS, hear, tell, write_model

LAYERS, BLOCKS, BLOCK_TOKENS, HEADS, HEAD_SIZE = 4, 64, 32, 8, 64
ROUNDS, BLOCKS_OF_A_REQUEST = 20, 16
LIMIT_S = 60


def configure(role, mode, directory, backend, side_port):
    """vLLM's own configuration of a small Llama, on its CPU platform. Both sides must name one model."""
    os.environ["VLLM_NIXL_SIDE_CHANNEL_HOST"] = ADDRESS
    os.environ["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(side_port)
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    class OnTheseCores(CpuPlatform):
        """Its wheel was built for GPUs: the CPU's operators, which tell of cores, are not in it."""

        @classmethod
        def discover_numa_topology(cls):
            return []

    vllm.platforms._current_platform = OnTheseCores()
    from vllm.config import KVTransferConfig
    from vllm.engine.arg_utils import EngineArgs

    model = directory / "model"
    write_model(model, LAYERS, HEADS, HEAD_SIZE)
    transfer = KVTransferConfig(kv_connector="NixlConnector" if mode == "pull" else "NixlPushConnector",
                                kv_role="kv_producer" if role == "prefill" else "kv_consumer", kv_buffer_device="cpu",
                                kv_connector_extra_config={"backends": [backend]})
    config = EngineArgs(model=str(model), skip_tokenizer_init=True, block_size=BLOCK_TOKENS, max_model_len=1024, enforce_eager=True,
                        kv_transfer_config=transfer).create_engine_config()
    config.cache_config.kv_cache_layout = "LBHNC"
    return config


class Worker:
    """The connector with its caches, and the scheduler's half where others find it."""

    def __init__(self, config, mode, seed):
        import torch
        from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
        from vllm.distributed.kv_transfer.kv_connector.v1.nixl import connector, metadata
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

        self.torch = torch
        self.metadata = metadata.NixlConnectorMetadata
        kind = connector.NixlPullConnector if mode == "pull" else connector.NixlPushConnector
        spec = FullAttentionSpec(block_size=BLOCK_TOKENS, num_kv_heads=HEADS, head_size=HEAD_SIZE, dtype=torch.bfloat16)
        names = [f"model.layers.{layer}.self_attn.attn" for layer in range(LAYERS)]
        cache_config = KVCacheConfig(num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(names, spec)])
        self.caches = {name: cache for name, cache in zip(names, self.contents(seed))}
        self.worker = kind(config, KVConnectorRole.WORKER, cache_config)
        self.worker.register_kv_caches(self.caches)
        self.scheduler = kind(config, KVConnectorRole.SCHEDULER, cache_config)
        self.scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): self.worker.get_handshake_metadata()})

    def contents(self, seed):
        """Of all layers: keys and values of a block lie together."""
        shape = (BLOCKS, HEADS, BLOCK_TOKENS, 2 * HEAD_SIZE)
        generator = self.torch.Generator().manual_seed(seed)
        return [self.torch.randn(shape, generator=generator).to(self.torch.bfloat16) for _ in range(LAYERS)]

    def step(self, metadata=None):
        """What an engine does around a forward pass; the requests that were sent, and those that were received."""
        self.worker.bind_connector_metadata(metadata or self.metadata())
        self.worker.start_load_kv(None)
        sent, received = self.worker.get_finished(set())
        self.worker.clear_connector_metadata()
        return sent or set(), received or set()

    def close(self):
        self.worker.shutdown()
        self.scheduler.shutdown()


def blocks_of(seed):
    return random.Random(seed).sample(range(BLOCKS), BLOCKS_OF_A_REQUEST)


def request_of(index):
    return f"request-{index}"


def prefill(worker, mode):
    """Offers all requests, and waits until each was fetched, or written."""
    metadata = worker.metadata()
    for index in range(ROUNDS):
        metadata.reqs_in_batch.add(request_of(index))
        metadata.reqs_to_send[request_of(index)] = time.perf_counter() + 2 * LIMIT_S
        if mode == "push":
            metadata.push_finished_blocks[request_of(index)] = (blocks_of(index),)
    limit = time.monotonic() + 2 * LIMIT_S
    sent, _ = worker.step(metadata)
    while len(sent) < ROUNDS:
        if time.monotonic() > limit:
            raise TimeoutError(f"{len(sent)} of {ROUNDS} requests were taken within {2 * LIMIT_S} s")
        sent |= worker.step()[0]
        time.sleep(0.001)


def fetch(worker, mode, index, mine, other, side_port):
    """One request, to its end; the seconds that it took."""
    metadata = worker.metadata()
    here = blocks_of(1000 + index)
    metadata.add_new_req_to_recv(request_of(index), (here,), {
        "remote_block_ids": (blocks_of(index),) if mode == "pull" else (), "remote_engine_id": other["engine"],
        "remote_request_id": request_of(index), "remote_host": ADDRESS, "remote_port": other["port"], "tp_size": 1,
        "remote_num_tokens": BLOCKS_OF_A_REQUEST * BLOCK_TOKENS}, awaiting_kvs=True)
    if mode == "push":
        metadata.push_registrations[request_of(index)] = {
            "request_id": request_of(index), "decode_engine_id": mine, "decode_host": ADDRESS, "decode_port": side_port,
            "decode_tp_size": 1, "local_block_ids": (here,), "remote_engine_id": other["engine"], "remote_host": ADDRESS,
            "remote_port": other["port"], "remote_tp_size": 1, "remote_pp_size": 1}
    begin = time.monotonic()
    _, received = worker.step(metadata)
    while request_of(index) not in received:
        if time.monotonic() > begin + LIMIT_S:
            raise TimeoutError(f"{request_of(index)} has not come within {LIMIT_S} s")
        received |= worker.step()[1]
    if failed := worker.worker.get_block_ids_with_load_errors():
        raise RuntimeError(f"{request_of(index)}: vLLM says that blocks {failed} were not loaded")
    return time.monotonic() - begin


def decode(worker, mode, mine, other, side_port):
    """Fetches every request into blocks of its own choice; nothing else may change."""
    source = worker.contents(other["seed"])
    took = []
    for index in range(ROUNDS):
        expected = [cache.clone() for cache in worker.caches.values()]
        for layer, cache in enumerate(expected):
            cache[blocks_of(1000 + index)] = source[layer][blocks_of(index)]
        took.append(fetch(worker, mode, index, mine, other, side_port))
        if not all(worker.torch.equal(*pair) for pair in zip(worker.caches.values(), expected)):
            raise RuntimeError(f"{request_of(index)}: the cache has other contents than it should")
    print(f"vllm {mode}: {ROUNDS} requests of {LAYERS} layers, {BLOCKS_OF_A_REQUEST} blocks each, right; the median took "
          f"{sorted(took)[ROUNDS // 2] * 1e3:.1f} ms", flush=True)


def main():
    role, mode, directory, backend = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
    side_port = {"prefill": 5600, "decode": 5700}[role]
    seed = {"prefill": 7, "decode": 8}[role]
    config = configure(role, mode, directory, backend, side_port)
    from vllm.config import set_current_vllm_config
    from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment

    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, f"file://{directory}/group-{role}", 0, "gloo")
        ensure_model_parallel_initialized(1, 1)
        worker = Worker(config, mode, seed)
        mine = config.kv_transfer_config.engine_id
        tell(directory, role, {"engine": mine, "port": side_port, "seed": seed})
        if role == "prefill":
            prefill(worker, mode)
        else:
            decode(worker, mode, mine, hear(directory, "prefill", LIMIT_S), side_port)
        tell(directory, f"{role}-done", True)
        hear(directory, {"prefill": "decode", "decode": "prefill"}[role] + "-done", LIMIT_S)
        worker.close()


if __name__ == "__main__":
    main()
