"""What frameworks/run and its workers share: a small model's configuration, words between sides in a directory, the end of processes."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import time

ADDRESS = "127.0.0.1"


def write_model(model, layers, heads, head_size, vocabulary=1000):
    """The configuration of a Llama in the directory `model`, which may be there already."""
    model.mkdir(exist_ok=True)
    tell(model, "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": heads * head_size, "intermediate_size": 1024,
        "num_attention_heads": heads, "num_key_value_heads": heads, "num_hidden_layers": layers, "vocab_size": vocabulary,
        "max_position_embeddings": 2048, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2})


def wait_for(what, limit_s, done, pause_s=0.0005):
    """What done() says, once it says something true."""
    end = time.monotonic() + limit_s
    while not (result := done()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {limit_s} s")
        time.sleep(pause_s)
    return result


def tell(directory, name, what):
    """Whole, or not at all."""
    draft = directory / f"{name}.{os.getpid()}"
    draft.write_text(json.dumps(what))
    draft.rename(directory / name)


def hear(directory, name, limit_s):
    """What the other side has told, or tells within that time."""
    wait_for(f"the other side's {name}", limit_s, (directory / name).exists, 0.05)
    return json.loads((directory / name).read_text())


def free_port():
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        return free.getsockname()[1]


def processes_of_group(group):
    """Their numbers."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[2]) == group:
                found.append(int(stat.parent.name))
    return found


def end_group(leader, grace_s):
    """Ends a process that leads a group: it is asked to, and what is left of the group after that long is killed."""
    if grace_s:
        if leader.poll() is None:
            leader.terminate()
        with contextlib.suppress(TimeoutError):
            wait_for("the end of a group", grace_s, lambda: leader.poll() is not None and not processes_of_group(leader.pid), 0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()
