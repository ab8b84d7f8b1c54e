// Prints the list of settings as it is now: docs/configuration.md, or JSON with the version beside it with
// --json.
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/params.h"
#include "railyard_version.h"

namespace {

nlohmann::json params_as_json() {
    nlohmann::json list = nlohmann::json::array();
    for (const railyard::ParamDoc& doc : railyard::param_docs()) {
        list.push_back({{"name", doc.name},
                        {"kind", doc.kind},
                        {"default", doc.default_value},
                        {"allowed", doc.allowed},
                        {"unit", doc.unit},
                        {"text", doc.text},
                        {"env", doc.env}});
    }
    return {{"version", RAILYARD_VERSION}, {"settings", std::move(list)}};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "--json") == 0)
        std::cout << params_as_json().dump(1) << '\n';
    else
        std::cout << railyard::params_as_markdown();
    return std::cout.flush() ? 0 : 1;
}
