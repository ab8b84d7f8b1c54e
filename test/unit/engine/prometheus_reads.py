"""Reads a report with Prometheus' own parser: each metric has its type, help and whole histograms.   prometheus_reads.py FILE"""
import pathlib
import sys

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    print("no prometheus_client: install python3-prometheus-client")
    sys.exit(77)

families = list(text_string_to_metric_families(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")))
names = [family.name for family in families]
assert len(names) == len(set(names)), f"a metric stands in two places: {names}"
for family in families:
    assert family.type in ("gauge", "counter", "histogram"), f"{family.name}: {family.type}"
    assert family.documentation and family.samples, family.name
    seen = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
    assert len(seen) == len(set(seen)), f"{family.name}: a sample is there twice"
    if family.type == "counter":
        assert all(sample.name == family.name + "_total" for sample in family.samples), family.name
    if family.type == "histogram":
        buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
        counts = [sample for sample in family.samples if sample.name.endswith("_count")]
        last = [bucket.value for bucket in buckets if bucket.labels["le"] == "+Inf"]
        assert last == [count.value for count in counts] and len(buckets) == 25 * len(counts), family.name
print(f"{len(families)} metrics")
