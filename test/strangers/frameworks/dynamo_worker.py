"""One of two workers that move tensors with Dynamo's nixl_connect, in host memory, for frameworks/run.

    dynamo_worker.py offers|moves read|write DIRECTORY BACKEND

One offers memory, to be read or to be written, and tells the other of it; that one moves. Each has one arena, in which the tensors and
arrays are slices in places of its own choice, with gaps; AT_ONCE operations are under way at a time. Who has received compares all of it.
The same places are used PER_PLACE times, by operations that are there until the next group's have ended: memory that is described again, over NICs
while it is registered, too (keep_keys=always); then others, in another area of the arena.
"""

import asyncio
import itertools
import os
import pathlib
import random
import sys
import time

from exchange import hear, tell

SIZES = (1, 7, 64, 4096, 65536, 100_001, 1 << 20, 3 << 20)
GROUPS, AT_ONCE, PIECES = 9, 4, 6
PER_PLACE = 3
AREA_BYTES = 32 << 20
ARENA_BYTES = GROUPS // 3 * AREA_BYTES
START_S, LIMIT_S = 120, 30
GAP = 64


def use_as_ucx(plugin, directory):
    """nixl_connect makes its agents with NIXL's defaults, which are the backend UCX: the plugin has that name here."""
    directory.mkdir()
    (directory / "libplugin_UCX.so").symlink_to(plugin)
    os.environ["NIXL_PLUGIN_DIR"] = str(directory)


def pieces_of(group, side):
    """For each operation of a group the pieces that a side has in its arena, as (begin, bytes), in an order of its own."""
    places = group // PER_PLACE
    sizes, order = random.Random(f"{places}"), random.Random(f"{places} {side}")
    pieces = [[(0, sizes.choice(SIZES)) for _ in range(PIECES)] for _ in range(AT_ONCE)]
    begin = area = places % (ARENA_BYTES // AREA_BYTES) * AREA_BYTES
    for operation, piece in order.sample([(operation, piece) for operation in range(AT_ONCE) for piece in range(PIECES)], AT_ONCE * PIECES):
        size = pieces[operation][piece][1]
        pieces[operation][piece] = (begin, size)
        begin += size + order.randrange(1, GAP)
    if begin > area + AREA_BYTES:
        raise ValueError(f"the pieces of group {group} do not fit")
    return pieces


def descriptors(arena, pieces):
    """Tensors and arrays by turns."""
    from dynamo import nixl_connect

    slices = [arena[begin:begin + size] for begin, size in pieces]
    return [nixl_connect.Descriptor(piece if index % 2 else (piece.numpy(), "cpu")) for index, piece in enumerate(slices)]


def contents(group):
    import torch
    return torch.randint(0, 256, (ARENA_BYTES,), generator=torch.Generator().manual_seed(group), dtype=torch.uint8)


async def move(connector, side, mode, directory, group, arena):
    """The operations of a group, which have ended, and the seconds that they took. What they registered goes with them."""
    from dynamo import nixl_connect

    mine = [descriptors(arena, pieces) for pieces in pieces_of(group, side)]
    begin = time.monotonic()
    if side == "offers":
        offer = connector.create_readable if mode == "read" else connector.create_writable
        operations = [await offer(here) for here in mine]
        tell(directory, f"group-{group}", [operation.metadata().model_dump() for operation in operations])
    else:
        offered = [nixl_connect.RdmaMetadata.model_validate(data) for data in hear(directory, f"group-{group}", START_S)]
        begin = time.monotonic()
        operations = [await (connector.begin_read(there, here) if mode == "read" else connector.begin_write(here, there))
                      for there, here in zip(offered, mine)]
    await asyncio.wait_for(asyncio.gather(*(operation.wait_for_completion() for operation in operations)), LIMIT_S)
    return operations, time.monotonic() - begin


async def work(side, mode, directory):
    import torch
    from dynamo import nixl_connect

    connector = nixl_connect.Connector()
    other = {"offers": "moves", "moves": "offers"}[side]
    receives = (side == "moves") == (mode == "read")
    arena = torch.zeros(ARENA_BYTES, dtype=torch.uint8)
    took, kept = [], []
    for group in range(GROUPS):
        sent = contents(group)
        arena.copy_(torch.zeros_like(sent) if receives else sent)
        operations, seconds = await move(connector, side, mode, directory, group, arena)
        took.append(seconds)
        kept = operations
        del operations
        if receives:
            expected = torch.zeros_like(arena)
            here_and_there = zip(*(itertools.chain(*pieces_of(group, one)) for one in (side, other)))
            for (here, size), (there, _) in here_and_there:
                expected[here:here + size] = sent[there:there + size]
            if wrong := int((arena != expected).sum()):
                raise RuntimeError(f"group {group}: {wrong} bytes are not what they should be")
            tell(directory, f"checked-{group}", True)
        else:
            hear(directory, f"checked-{group}", LIMIT_S)
    return sorted(took)[GROUPS // 2]


def main():
    side, mode, directory, backend = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
    use_as_ucx(pathlib.Path(os.environ["NIXL_PLUGIN_DIR"], f"libplugin_{backend}.so"), directory / f"plugins-{side}")
    median_s = asyncio.run(work(side, mode, directory))
    if side == "moves":
        print(f"dynamo {mode}: {GROUPS} times {AT_ONCE} operations of {PIECES} pieces, right; the median took "
              f"{median_s * 1e3:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
