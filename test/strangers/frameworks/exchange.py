"""What both workers of frameworks/run need: a small model's configuration, and words from one side to the other through a directory."""

import json
import os
import time

ADDRESS = "127.0.0.1"


def write_model(model, layers, heads, head_size):
    """The configuration of a Llama in the directory `model`, which may be there already."""
    model.mkdir(exist_ok=True)
    tell(model, "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": heads * head_size, "intermediate_size": 1024,
        "num_attention_heads": heads, "num_key_value_heads": heads, "num_hidden_layers": layers, "vocab_size": 1000,
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
