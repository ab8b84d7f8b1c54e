// Prints docs/statistics.md, which is given, with the table of metrics as the code has it now.
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "engine/live_metrics.h"

namespace {

using namespace railyard::metrics;

void add_row(std::string& text, const char* name, const char* type, const std::string& labels,
             const std::string& help) {
    text += std::string("| `") + name + "` | " + type + " | " + labels + " | " + help + " |\n";
}

std::string words(std::initializer_list<const char*> all) {
    std::string text;
    for (const char* word : all)
        text += (text.empty() ? "`" : " `") + std::string(word) + "`";
    return text;
}

/// One row a name; the values of a label of its own in brackets.
template <class Row, std::size_t count>
void add_rows(std::string& text, const Metric<Row> (&table)[count], const std::string& labels) {
    for (std::size_t first = 0, next; first < count; first = next) {
        std::string values;
        for (next = first; next < count && !std::strcmp(table[next].name, table[first].name); ++next) {
            if (table[next].label.name)
                values += (values.empty() ? "" : ", ") + std::string(table[next].label.value);
        }
        const std::string own =
            values.empty() ? "" : " `" + std::string(table[first].label.name) + "` (" + values + ")";
        add_row(text, table[first].name, table[first].type, labels + own, table[first].help);
    }
}

std::string table() {
    std::string text = "| metric | type | labels | |\n|---|---|---|---|\n";
    add_row(text, build_info, "gauge", words({"version", "agent", "instance", "provider", "pid"}),
            build_info_help);
    add_row(text, written, "gauge", words({"agent", "engine"}), written_help);
    const std::string rail = words({"agent", "rail", "engine"}),
                      peer = words({"agent", "peer", "instance", "engine"});
    add_rows(text, of_rails, rail);
    add_rows(text, of_rail_traffic, rail);
    add_row(text, peer_state, "gauge", peer + " `state`", peer_state_help);
    add_rows(text, of_peers, peer);
    add_rows(text, of_peer_traffic, peer);
    add_row(text, latency, "histogram", peer + " `operation` (write, read)", latency_help);
    return text;
}

}  // namespace

int main(int count, char** words) {
    std::ifstream file(count == 2 ? words[1] : "");
    std::stringstream whole;
    whole << file.rdbuf();
    std::string page = whole.str();
    const std::string begin = "<!-- metrics: begin -->\n", end = "<!-- metrics: end -->\n";
    const std::size_t from = page.find(begin), to = page.find(end);
    if (from == std::string::npos || to == std::string::npos || to < from) {
        std::cerr << "metrics-doc PAGE: no page with `" << begin << "` and `" << end << "`\n";
        return 1;
    }
    page.replace(from + begin.size(), to - from - begin.size(), table());
    std::cout << page;
    return std::cout.flush() ? 0 : 1;
}
