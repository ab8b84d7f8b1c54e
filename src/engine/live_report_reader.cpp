#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "common/status.h"
#include "engine/live_metrics.h"
#include "engine/live_report.h"

namespace railyard {
namespace {

constexpr PeerState states[] = {PeerState::unknown, PeerState::connecting, PeerState::ready,
                                PeerState::suspect, PeerState::gone};

[[noreturn]] void refuse(std::size_t line, const std::string& reason) {
    throw Error(Status::mismatch, "line " + std::to_string(line) + ": " + reason);
}

struct Sample {
    std::size_t line = 0;
    std::string_view name;
    std::map<std::string_view, std::string> labels;
    std::string_view value;

    [[nodiscard]] const std::string& label(const char* wanted) const {
        const auto found = labels.find(wanted);
        if (found == labels.end()) refuse(line, std::string(name) + " without a label \"" + wanted + "\"");
        return found->second;
    }
    template <class Number, class... Base>
    [[nodiscard]] Number number(std::string_view text, Base... base) const {
        Number result{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result, base...);
        if (error != std::errc{} || end != text.data() + text.size())
            refuse(line, "\"" + std::string(text) + "\" is not a number for " + std::string(name));
        return result;
    }
    [[nodiscard]] std::uint64_t instance() const { return number<std::uint64_t>(label("instance"), 16); }
};

/// What stands between the quotation marks that `rest` begins behind; takes it and the last one away.
std::string take_quoted(std::string_view& rest, std::size_t line) {
    std::string value;
    for (std::size_t i = 0; i < rest.size(); ++i) {
        if (rest[i] == '"') {
            rest.remove_prefix(i + 1);
            return value;
        }
        if (rest[i] == '\\' && ++i < rest.size() && rest[i] == 'n') {
            value += '\n';
        } else if (i < rest.size()) {
            value += rest[i];
        }
    }
    refuse(line, "a label's value has no end");
}

Sample parse_sample(std::string_view text, std::size_t line) {
    Sample sample;
    sample.line = line;
    const std::size_t name_end = text.find_first_of("{ ");
    if (name_end == 0 || name_end == std::string_view::npos) refuse(line, "no name and value");
    sample.name = text.substr(0, name_end);
    text.remove_prefix(name_end);
    if (text.front() == '{') {
        text.remove_prefix(1);
        while (!text.starts_with('}')) {
            const std::size_t equals = text.find("=\"");
            if (equals == std::string_view::npos) refuse(line, "its labels have no end");
            const std::string_view name = text.substr(0, equals);
            text.remove_prefix(equals + 2);
            sample.labels[name] = take_quoted(text, line);
            if (text.starts_with(',')) text.remove_prefix(1);
        }
        text.remove_prefix(1);
    }
    if (!text.starts_with(' ') || text.size() == 1) refuse(line, "no value");
    sample.value = text.substr(1);
    return sample;
}

class Reader {
  public:
    LiveReport read(std::string_view text) {
        std::size_t number = 0;
        bool ended = false;
        while (!text.empty() && !ended) {
            const std::size_t end = std::min(text.find('\n'), text.size());
            const std::string_view line = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            ++number;
            ended = line == end_of_report;
            if (!line.empty() && line.front() != '#') take(parse_sample(line, number));
        }
        if (report_.version.empty())
            throw Error(Status::mismatch,
                        std::string("no ") + metrics::build_info + " in it: no engine has written this");
        if (!ended) throw Error(Status::mismatch, "its end is missing after line " + std::to_string(number));
        for (PeerReport& peer : report_.peers) {
            if (!peer.traffic) continue;
            for (const metrics::Latency& latency : metrics::latencies)
                take_apart((*peer.traffic).*latency.value, peer.agent);
        }
        return std::move(report_);
    }

  private:
    void take(const Sample& sample) {
        if (sample.name == metrics::build_info) {
            report_.version = sample.label("version");
            report_.agent = sample.label("agent");
            report_.nonce = sample.instance();
            report_.provider = sample.label("provider");
            report_.pid = sample.number<std::uint64_t>(sample.label("pid"));
        } else if (sample.name == metrics::written) {
            const auto seconds = sample.number<double>(sample.value);
            if (!(seconds >= 0 && seconds < 1e12)) refuse(sample.line, "no time of day");
            report_.written_ms = static_cast<std::uint64_t>(seconds * 1000 + 0.5);
        } else if (sample.name == metrics::peer_state) {
            peer(sample).state = state(sample);
        } else if (sample.name.starts_with(metrics::latency)) {
            take_latency(sample);
        }
        take_figure(
            metrics::of_rails, sample, [&]() -> auto& { return rail(sample); });
        take_figure(
            metrics::of_rail_traffic, sample, [&]() -> auto& { return in_place(rail(sample).traffic); });
        take_figure(
            metrics::of_peers, sample, [&]() -> auto& { return peer(sample); });
        take_figure(
            metrics::of_peer_traffic, sample, [&]() -> auto& { return in_place(peer(sample).traffic); });
    }
    template <class Traffic>
    static Traffic& in_place(std::optional<Traffic>& traffic) {
        return traffic ? *traffic : traffic.emplace();
    }
    /// What has another label, or none, is a metric that we do not know.
    static bool is_labelled(const Sample& sample, const metrics::Label& label) {
        if (!label.name) return true;
        const auto found = sample.labels.find(label.name);
        return found != sample.labels.end() && found->second == label.value;
    }
    template <class Row, std::size_t count, class Place>
    static void take_figure(const metrics::Metric<Row> (&table)[count], const Sample& sample, Place place) {
        for (const metrics::Metric<Row>& metric : table) {
            if (sample.name == metric.name && is_labelled(sample, metric.label))
                place().*metric.value = sample.number<std::uint64_t>(sample.value);
        }
    }
    /// A bucket's count, with those of all before it, or the sum; how many they are is the last bucket's.
    void take_latency(const Sample& sample) {
        const std::string_view part = sample.name.substr(std::string_view(metrics::latency).size());
        for (const metrics::Latency& latency : metrics::latencies) {
            if (!is_labelled(sample, latency.label)) continue;
            if (part == "_sum") {
                const auto seconds = sample.number<double>(sample.value);
                if (!(seconds >= 0 && seconds < 1e9)) refuse(sample.line, "no sum of times");
                (in_place(peer(sample).traffic).*latency.value).sum_ns =
                    static_cast<std::uint64_t>(seconds * 1e9 + 0.5);
            }
            for (std::size_t i = 0; part == "_bucket" && i < LatencyCounts::buckets; ++i) {
                if (sample.label("le") == bucket_text(i))
                    (in_place(peer(sample).traffic).*latency.value).counts[i] =
                        sample.number<std::uint64_t>(sample.value);
            }
        }
    }
    /// From "this and all before it" to each.
    static void take_apart(LatencyCounts& latency, const std::string& peer) {
        for (std::size_t i = LatencyCounts::buckets; --i > 0;) {
            if (latency.counts[i] < latency.counts[i - 1])
                throw Error(Status::mismatch,
                            "a bucket of peer \"" + peer + "\" holds less than the one before it");
            latency.counts[i] -= latency.counts[i - 1];
        }
    }
    static PeerState state(const Sample& sample) {
        const std::string& text = sample.label("state");
        for (const PeerState state : states) {
            if (text == to_string(state)) return state;
        }
        refuse(sample.line, "\"" + text + "\" is no state of a peer");
    }
    PeerReport& peer(const Sample& sample) {
        const auto [known, added] =
            peers_.try_emplace({sample.label("peer"), sample.instance()}, report_.peers.size());
        if (added) report_.peers.push_back({known->first.first, known->first.second});
        return report_.peers[known->second];
    }
    RailReport& rail(const Sample& sample) {
        const auto [known, added] = rails_.try_emplace(sample.label("rail"), report_.rails.size());
        if (added) report_.rails.push_back({known->first});
        return report_.rails[known->second];
    }

    LiveReport report_;
    std::map<std::pair<std::string, std::uint64_t>, std::size_t> peers_;
    std::map<std::string, std::size_t> rails_;
};

}  // namespace

LiveReport parse_live_report(std::string_view text) {
    return Reader().read(text);
}

}  // namespace railyard
