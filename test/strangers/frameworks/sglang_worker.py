"""One side of SGLang's disaggregation over NIXL, with KV pages in host memory, for frameworks/run.

    sglang_worker.py prefill|decode write DIRECTORY BACKEND

Prefill has the bootstrap server and the manager that sends, decode the one that receives. Every room takes other pages on both sides, in
two chunks and an aux row. Prefill fills its buffers anew for each room, from the room's number; decode clears its own before, and compares
all of them after it: also the pages that nothing was to be written to.
"""

import os
import pathlib
import random
import socket
import sys
import time
import traceback

from exchange import ADDRESS, free_port, hear, tell, wait_for, write_model

LAYERS, PAGES, PAGE_BYTES, PAGE_TOKENS, HEADS = 4, 64, 65536, 16, 8
AUX_ROWS, AUX_BYTES = 32, 512
ROOMS, PAGES_OF_A_ROOM, FIRST_CHUNK = 20, 16, 10
START_S = 120  # importing SGLang takes most of it
ROOM_S = 30


def contents(room):
    """The key pages of all layers, then the value pages, and the aux rows that prefill has for this room."""
    import numpy
    generator = numpy.random.default_rng(room)
    pages = generator.integers(0, 256, (2 * LAYERS, PAGES, PAGE_BYTES), dtype=numpy.uint8)
    return pages, generator.integers(0, 256, (AUX_ROWS, AUX_BYTES), dtype=numpy.uint8)


def places(room, role):
    """The pages and the aux row that a side uses for this room."""
    import numpy
    choice = random.Random(f"{room} {role}")
    return numpy.array(choice.sample(range(PAGES), PAGES_OF_A_ROOM), dtype=numpy.int32), choice.randrange(AUX_ROWS)


def arguments_of(pages, aux):
    """What SGLang's scheduler tells of its pools: one GPU, no parallelism, nothing but keys and values."""
    from sglang.srt.disaggregation.base.conn import KVArgs

    told = KVArgs()
    told.engine_rank = told.gpu_id = told.system_dp_rank = told.pp_rank = told.prefill_start_layer = 0
    told.prefill_end_layer = LAYERS
    told.kv_data_ptrs = [layer.ctypes.data for layer in pages]
    told.kv_data_lens = [layer.nbytes for layer in pages]
    told.kv_item_lens = [PAGE_BYTES] * len(pages)
    told.kv_data_mem_kinds = ["DRAM"] * len(pages)
    told.kv_layer_ids = list(range(LAYERS)) * 2
    told.kv_cache_dtype_str = "bfloat16"
    told.aux_data_ptrs, told.aux_data_lens, told.aux_item_lens = [aux.ctypes.data], [aux.nbytes], [AUX_BYTES]
    told.state_types = told.state_data_ptrs = told.state_data_lens = told.state_item_lens = told.state_layer_ids = []
    told.state_dim_per_tensor = []
    told.is_hybrid_mla_backend, told.mla_compression_ratios, told.ib_device, told.rust_http_port = False, None, "", None
    told.kv_head_num = told.total_kv_head_num = HEADS
    told.page_size = PAGE_TOKENS
    return told


def make_manager(role, directory, port, pages, aux):
    from sglang.srt import runtime_context
    from sglang.srt.disaggregation.nixl import NixlKVManager
    from sglang.srt.disaggregation.utils import DisaggregationMode
    from sglang.srt.server_args import ServerArgs

    settings = ServerArgs(model_path=str(directory / f"model-{role}"), device="cpu", skip_tokenizer_init=True, host=ADDRESS,
                          page_size=PAGE_TOKENS, disaggregation_mode=role, disaggregation_transfer_backend="nixl",
                          disaggregation_bootstrap_port=port)
    runtime_context.publish(settings, role="scheduler", ranks=runtime_context.SpawnRanks(world_rank=0, gpu_id=0))
    runtime_context.get_parallel().override_permanently(pp_group=None)  # read, and used where there are several
    return NixlKVManager(arguments_of(pages, aux), DisaggregationMode(role), settings, False)


def ended_well(room, side):
    """Waits for the end of the room; raises when it is none that SGLang calls a success."""
    from sglang.srt.disaggregation.base.conn import KVPoll

    wait_for(f"the end of room {room}", ROOM_S, lambda: side.poll() in (KVPoll.Success, KVPoll.Failed))
    if side.poll() == KVPoll.Failed:
        side.failure_exception()  # raises


def prefill(directory, pages, aux):
    from sglang.srt.disaggregation.base.conn import KVPoll
    from sglang.srt.disaggregation.nixl import NixlKVBootstrapServer, NixlKVSender

    port = free_port()
    NixlKVBootstrapServer(ADDRESS, port)
    wait_for("the bootstrap server", ROOM_S, lambda: socket.socket().connect_ex((ADDRESS, port)) == 0)
    manager = make_manager("prefill", directory, port, pages, aux)
    tell(directory, "port", port)
    for room in range(ROOMS):
        pages[:], aux[:] = contents(room)
        mine, row = places(room, "prefill")
        sender = NixlKVSender(manager, f"{ADDRESS}:{port}", room)
        sender.init(len(mine), row)
        wait_for(f"decode to ask for room {room}", START_S, lambda: sender.poll() == KVPoll.WaitingForInput)
        sender.send(mine[:FIRST_CHUNK])
        sender.send(mine[FIRST_CHUNK:])
        ended_well(room, sender)
        sender.clear()
    hear(directory, "decoded", ROOM_S)


def decode(directory, pages, aux):
    from sglang.srt.disaggregation.nixl import NixlKVReceiver

    port = hear(directory, "port", START_S)
    manager = make_manager("decode", directory, port, pages, aux)
    if not manager.try_ensure_parallel_info(f"{ADDRESS}:{port}"):
        raise ConnectionError("no answer from prefill's bootstrap server")
    took = []
    for room in range(ROOMS):
        pages[:], aux[:] = 0, 0
        expected_pages, expected_aux = pages.copy(), aux.copy()
        mine, row = places(room, "decode")
        theirs, their_row = places(room, "prefill")
        sent_pages, sent_aux = contents(room)
        expected_pages[:, mine], expected_aux[row] = sent_pages[:, theirs], sent_aux[their_row]
        receiver = NixlKVReceiver(manager, f"{ADDRESS}:{port}", room)
        receiver.init(0)
        begin = time.monotonic()
        receiver.send_metadata(mine, row)
        ended_well(room, receiver)
        took.append(time.monotonic() - begin)
        if wrong := int((pages != expected_pages).sum()) + int((aux != expected_aux).sum()):
            raise RuntimeError(f"room {room}: {wrong} bytes are not what they should be")
        receiver.clear()
    tell(directory, "decoded", True)
    print(f"sglang write: {ROOMS} rooms of {2 * LAYERS} x {PAGES_OF_A_ROOM} pages, right; the median took "
          f"{sorted(took)[ROOMS // 2] * 1e3:.1f} ms", flush=True)


def main():
    role, directory, backend = sys.argv[1], pathlib.Path(sys.argv[3]), sys.argv[4]
    os.environ |= {"SGLANG_DISAGGREGATION_NIXL_BACKEND": backend, "SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS": "{}",
                   "SGLANG_HOST_IP": ADDRESS}
    import numpy

    write_model(directory / f"model-{role}", LAYERS, HEADS, 64)
    pages = numpy.zeros((2 * LAYERS, PAGES, PAGE_BYTES), dtype=numpy.uint8)
    aux = numpy.zeros((AUX_ROWS, AUX_BYTES), dtype=numpy.uint8)
    {"prefill": prefill, "decode": decode}[role](directory, pages, aux)


if __name__ == "__main__":
    status = 1
    try:
        main()
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # SGLang's threads do not end
