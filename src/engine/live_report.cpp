// The writing side; live_report_reader.cpp is the other one.
#include "engine/live_report.h"

#include <cinttypes>
#include <cstdio>
#include <initializer_list>
#include <utility>

#include "engine/live_metrics.h"

namespace railyard {
namespace {

/// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none.
std::size_t character_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
    const std::size_t length = first >= 0xf5   ? 0
                               : first >= 0xf0 ? 4
                               : first >= 0xe0 ? 3
                               : first >= 0xc2 ? 2
                                               : 0;
    if (length == 0 || length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
    }
    const unsigned char second = byte(1);
    const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool outside = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
    return overlong || outside ? 0 : length;
}

/// After a comma where it is not the first.
void append_label(std::string& text, const char* name, std::string_view value) {
    if (!text.empty()) text += ',';
    text.append(name).append("=\"");
    for (std::string_view rest = value; !rest.empty();) {
        std::size_t length = 1;
        if (rest[0] == '\n') {
            text += "\\n";
        } else if (rest[0] == '"' || rest[0] == '\\') {
            text.append(1, '\\').append(1, rest[0]);
        } else if ((length = character_length(rest)) != 0) {
            text += rest.substr(0, length);
        } else {
            length = 1;
            text += "\xef\xbf\xbd";
        }
        rest.remove_prefix(length);
    }
    text += '"';
}

std::string labels(std::initializer_list<std::pair<const char*, std::string_view>> all) {
    std::string text;
    for (const auto& [name, value] : all)
        append_label(text, name, value);
    return text;
}

void append_head(std::string& text, const char* name, const char* type, const char* help) {
    text.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ");
    text.append(type).append("\n");
}

/// `more`: a label besides, whose value needs no care.
void append_sample(std::string& text, std::string_view name, std::string_view labels, metrics::Label more,
                   std::string_view value) {
    text.append(name).append("{").append(labels);
    if (more.name) text.append(",").append(more.name).append("=\"").append(more.value).append("\"");
    text.append("} ").append(value).append("\n");
}

/// A rail or a peer, and what all its samples are labelled with.
template <class Row>
struct Labelled {
    const Row* row;
    std::string_view labels;
};

template <class Row, std::size_t count>
void append_all(std::string& text, const metrics::Metric<Row> (&table)[count],
                const std::vector<Labelled<Row>>& rows) {
    if (rows.empty()) return;
    for (std::size_t first = 0, next; first < count; first = next) {
        const std::string_view name = table[first].name;
        append_head(text, table[first].name, table[first].type, table[first].help);
        for (next = first; next < count && name == table[next].name;)
            ++next;
        for (const Labelled<Row>& each : rows) {
            for (std::size_t i = first; i < next; ++i)
                append_sample(text, name, each.labels, table[i].label,
                              std::to_string(each.row->*table[i].value));
        }
    }
}

void append_latency(std::string& text, std::string_view labels, const metrics::Label& of,
                    const LatencyCounts& latency) {
    const std::string name = metrics::latency;
    const std::string all = std::string(labels) + "," + of.name + "=\"" + of.value + "\"";
    std::uint64_t up_to_here = 0;
    for (std::size_t i = 0; i < LatencyCounts::buckets; ++i) {
        up_to_here += latency.counts[i];
        append_sample(text, name + "_bucket", all, {"le", bucket_text(i).c_str()},
                      std::to_string(up_to_here));
    }
    append_sample(text, name + "_sum", all, {}, seconds_text(latency.sum_ns));
    append_sample(text, name + "_count", all, {}, std::to_string(up_to_here));
}

void append_rails(const LiveReport& report, std::string& text) {
    const std::string engine = instance_text(report.nonce);
    std::vector<std::string> names;
    for (const RailReport& rail : report.rails)
        names.push_back(labels({{"agent", report.agent}, {"rail", rail.name}, {"engine", engine}}));
    std::vector<Labelled<RailReport>> rails;
    std::vector<Labelled<RailTrafficReport>> traffic;
    for (std::size_t i = 0; i < names.size(); ++i) {
        rails.push_back({&report.rails[i], names[i]});
        if (report.rails[i].traffic) traffic.push_back({&*report.rails[i].traffic, names[i]});
    }
    append_all(text, metrics::of_rails, rails);
    append_all(text, metrics::of_rail_traffic, traffic);
}

void append_peers(const LiveReport& report, std::string& text) {
    const std::string engine = instance_text(report.nonce);
    std::vector<std::string> names;
    for (const PeerReport& peer : report.peers) {
        names.push_back(labels({{"agent", report.agent},
                                {"peer", peer.agent},
                                {"instance", instance_text(peer.nonce)},
                                {"engine", engine}}));
    }
    std::vector<Labelled<PeerReport>> peers;
    std::vector<Labelled<PeerTrafficReport>> traffic;
    append_head(text, metrics::peer_state, "gauge", metrics::peer_state_help);
    for (std::size_t i = 0; i < names.size(); ++i) {
        const PeerReport& peer = report.peers[i];
        append_sample(text, metrics::peer_state, names[i], {"state", to_string(peer.state)}, "1");
        peers.push_back({&peer, names[i]});
        if (peer.traffic) traffic.push_back({&*peer.traffic, names[i]});
    }
    append_all(text, metrics::of_peers, peers);
    append_all(text, metrics::of_peer_traffic, traffic);
    if (!traffic.empty()) append_head(text, metrics::latency, "histogram", metrics::latency_help);
    for (const auto& each : traffic) {
        for (const metrics::Latency& latency : metrics::latencies) {
            const LatencyCounts& counts = each.row->*latency.value;
            if (counts.count() != 0) append_latency(text, each.labels, latency.label, counts);
        }
    }
}

}  // namespace

std::string instance_text(std::uint64_t nonce) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016" PRIx64, nonce);
    return text;
}

std::string seconds_text(std::uint64_t ns) {
    char text[40];
    std::snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, ns / 1'000'000'000, ns % 1'000'000'000);
    return text;
}

std::string bucket_text(std::size_t bucket) {
    return bucket + 1 < LatencyCounts::buckets ? seconds_text(LatencyCounts::limit_ns(bucket)) : "+Inf";
}

void to_prometheus(const LiveReport& report, std::string& text) {
    append_head(text, metrics::build_info, "gauge", metrics::build_info_help);
    append_sample(text, metrics::build_info,
                  labels({{"version", report.version},
                          {"agent", report.agent},
                          {"instance", instance_text(report.nonce)},
                          {"provider", report.provider},
                          {"pid", std::to_string(report.pid)}}),
                  {}, "1");
    append_head(text, metrics::written, "gauge", metrics::written_help);
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%" PRIu64 ".%03u", report.written_ms / 1000,
                  static_cast<unsigned>(report.written_ms % 1000));
    append_sample(text, metrics::written,
                  labels({{"agent", report.agent}, {"engine", instance_text(report.nonce)}}), {}, seconds);
    append_rails(report, text);
    append_peers(report, text);
    text.append(end_of_report).append("\n");
}

}  // namespace railyard
