"""Figures of the flow API (docs/flow.md), for numbers.py: flow-bench runs grains and a plain loop of writes with immediate data in turns."""

import json
import pathlib

import simulated
import table

FLOW_BENCH = pathlib.Path(__file__).resolve().parent.parent / "build/release/benchmark/flow-bench"


def beside(*figure):
    """Of one run of flow-bench."""
    return table.ProgramFigure(FLOW_BENCH, *figure)


def fan_out(document):
    """Of what four times one target would be, or of what the plain loop gets out of the machine where that is less."""
    return document["flow_mb_per_s"] / min(document["targets"] * document["flow_one_mb_per_s"], document["raw_mb_per_s"])


def simulated_rails(seconds):
    """4 simulated NICs at one rate: bandwidth of grains as a share of the sum."""
    with simulated.cluster("p5.48xl") as machine:
        machine.control("set", "rate_gbps=2")
        done = machine.run(FLOW_BENCH, "--provider", "efa", "--rails", "4", "--no-raw", "--target-env",
                           "SIMEFA_HOST=target", "--slices", "3", "--seconds", seconds)
        return json.loads(done)["flow_mb_per_s"] * 8 / 8000


def figures(quick):
    """Rows of flow-bench, and rows over the simulated machine as numbers.py wants those."""
    timed = ["--seconds", "1" if quick else "15", "--slices", "4" if quick else "30"]
    echo = ["--latency", "--size", "4K", "--ring", "16", *timed]
    to_raw = lambda document: document["ratio_raw"]  # noqa: E731
    rows = []
    for provider in ("tcp", "shm"):
        one, four = ["--provider", provider, *timed], ["--provider", provider, "--targets", "4", "--ring", "4", *timed]
        for words, endpoints in (("one endpoint", "1"), ("two endpoints", "2")):
            of_raw, raw = f"ours / raw of {words} a side", ["--raw-endpoints", endpoints]
            rows += [
                beside(f"flow, {provider}, 8 MiB to one target: bandwidth, {of_raw}", [*one, *raw], to_raw, 0.97, True),
                beside(f"flow, {provider}, 4 KiB there and back: p50, {of_raw}", ["--provider", provider, *echo, *raw], to_raw, 1.15, False),
            ]
        rows.append(beside(f"flow, {provider}, 8 MiB to 4 targets: of 4 times one, or of raw where that is less", four, fan_out, 0.95, True))
    return rows, [("flow, simulated p5, 4 rails, 8 MiB: bandwidth, of the sum of the rails",
                   lambda: simulated_rails("2" if quick else "9"), 0.97, True, "")]
