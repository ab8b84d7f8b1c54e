#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/spoken.h"
#include "tools/doctor/diagnosis.h"

namespace railyard::tools {

const char* to_string(Severity severity) noexcept {
    switch (severity) {
        case Severity::ok:
            return "ok";
        case Severity::note:
            return "note";
        case Severity::warning:
            return "warning";
        case Severity::error:
            return "error";
    }
    return "?";
}

std::string diagnosis_text(const std::vector<Finding>& findings) {
    constexpr std::size_t indent = 9;
    std::string text;
    for (const Finding& finding : findings) {
        std::string word = to_string(finding.severity);
        word.resize(indent, ' ');
        text += word + finding.check + ": " + finding.what + "\n";
        if (!finding.remedy.empty()) text += std::string(indent, ' ') + "-> " + finding.remedy + "\n";
    }
    const auto count = [&](Severity severity) {
        const auto of_it = [&](const Finding& finding) { return finding.severity == severity; };
        const auto number = std::count_if(findings.begin(), findings.end(), of_it);
        return counted(static_cast<std::size_t>(number), to_string(severity));
    };
    return text + count(Severity::error) + ", " + count(Severity::warning) + ", " + count(Severity::note) +
           "\n";
}

std::string diagnosis_json(const std::vector<Finding>& findings) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const Finding& finding : findings) {
        list.push_back({{"check", finding.check},
                        {"severity", to_string(finding.severity)},
                        {"what", finding.what},
                        {"remedy", finding.remedy.empty() ? Json() : Json(finding.remedy)}});
    }
    const Json report{{"version", 1}, {"worst", to_string(worst_of(findings))}, {"findings", list}};
    return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace railyard::tools
