#include "engine/live_report.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <utility>

#include "common/status.h"

namespace railyard {
namespace {

template <class Row>
struct Figure {
    const char* name;
    const char* type;
    const char* help;
    std::uint64_t Row::*value;
};

constexpr Figure<RailReport> rail_figures[] = {
    {"railyard_rail_load", "gauge", "Operations and submissions on the rail, roughly.", &RailReport::load},
    {"railyard_rail_bytes_total", "counter", "Bytes that the rail has read and written.",
     &RailReport::bytes_carried},
    {"railyard_rail_crawls", "gauge", "1: it carries far less than the others with as much to do.",
     &RailReport::crawls},
    {"railyard_rail_senders_replaced_total", "counter", "Times that the rail's sender was replaced.",
     &RailReport::senders_replaced},
};
constexpr Figure<PeerReport> peer_figures[] = {
    {"railyard_peer_paths", "gauge", "Pairs of rails that have been used towards the peer.",
     &PeerReport::paths},
    {"railyard_peer_paths_failed", "gauge", "Of these, pairs that are left alone because they failed.",
     &PeerReport::failed},
};
constexpr const char* build_info = "railyard_build_info";
constexpr const char* written = "railyard_written_timestamp_seconds";
constexpr const char* peer_state = "railyard_peer_state";
constexpr PeerState states[] = {PeerState::unknown, PeerState::connecting, PeerState::ready,
                                PeerState::suspect, PeerState::gone};
constexpr std::string_view end_mark = "# EOF";

// Writing

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

struct Label {
    const char* name;
    std::string_view value;
};

void append(std::string& text, const Label& label) {
    text.append(label.name).append("=\"");
    for (std::string_view rest = label.value; !rest.empty();) {
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

void append_head(std::string& text, const char* name, const char* type, const char* help) {
    text.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ");
    text.append(type).append("\n");
}

void append_sample(std::string& text, const char* name, std::initializer_list<Label> labels,
                   std::string_view value) {
    text += name;
    char before = '{';
    for (const Label& label : labels) {
        text += before;
        append(text, label);
        before = ',';
    }
    text.append("} ").append(value).append("\n");
}

// Reading

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
            ended = line == end_mark;
            if (!line.empty() && line.front() != '#') take(parse_sample(line, number));
        }
        if (report_.version.empty())
            throw Error(Status::mismatch,
                        std::string("no ") + build_info + " in it: no engine has written this");
        if (!ended) throw Error(Status::mismatch, "its end is missing after line " + std::to_string(number));
        return std::move(report_);
    }

  private:
    void take(const Sample& sample) {
        if (sample.name == build_info) {
            report_.version = sample.label("version");
            report_.agent = sample.label("agent");
            report_.nonce = sample.instance();
            report_.provider = sample.label("provider");
            report_.pid = sample.number<std::uint64_t>(sample.label("pid"));
        } else if (sample.name == written) {
            const auto seconds = sample.number<double>(sample.value);
            if (!(seconds >= 0 && seconds < 1e12)) refuse(sample.line, "no time of day");
            report_.written_ms = static_cast<std::uint64_t>(seconds * 1000 + 0.5);
        } else if (sample.name == peer_state) {
            peer(sample).state = state(sample);
        }
        for (const auto& figure : rail_figures) {
            if (sample.name == figure.name)
                rail(sample).*figure.value = sample.number<std::uint64_t>(sample.value);
        }
        for (const auto& figure : peer_figures) {
            if (sample.name == figure.name)
                peer(sample).*figure.value = sample.number<std::uint64_t>(sample.value);
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

std::string instance_text(std::uint64_t nonce) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016" PRIx64, nonce);
    return text;
}

void to_prometheus(const LiveReport& report, std::string& text) {
    const Label agent{"agent", report.agent};
    append_head(text, build_info, "gauge", "Which Railyard writes this, where, and for which agent.");
    append_sample(text, build_info,
                  {{"version", report.version},
                   agent,
                   {"instance", instance_text(report.nonce)},
                   {"provider", report.provider},
                   {"pid", std::to_string(report.pid)}},
                  "1");
    append_head(text, written, "gauge", "When this was written, in seconds since 1970.");
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%" PRIu64 ".%03u", report.written_ms / 1000,
                  static_cast<unsigned>(report.written_ms % 1000));
    append_sample(text, written, {agent}, seconds);
    for (const auto& figure : rail_figures) {
        append_head(text, figure.name, figure.type, figure.help);
        for (const RailReport& rail : report.rails)
            append_sample(text, figure.name, {agent, {"rail", rail.name}},
                          std::to_string(rail.*figure.value));
    }
    append_head(text, peer_state, "gauge", "The state that a peer is in: one line each, whose value is 1.");
    for (const PeerReport& peer : report.peers) {
        append_sample(text, peer_state,
                      {agent,
                       {"peer", peer.agent},
                       {"instance", instance_text(peer.nonce)},
                       {"state", to_string(peer.state)}},
                      "1");
    }
    for (const auto& figure : peer_figures) {
        append_head(text, figure.name, figure.type, figure.help);
        for (const PeerReport& peer : report.peers) {
            append_sample(text, figure.name,
                          {agent, {"peer", peer.agent}, {"instance", instance_text(peer.nonce)}},
                          std::to_string(peer.*figure.value));
        }
    }
    text.append(end_mark).append("\n");
}

LiveReport parse_live_report(std::string_view text) {
    return Reader().read(text);
}

}  // namespace railyard
