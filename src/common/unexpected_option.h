// What is wrong with words of a command line that CLI11 knows no option for.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "common/nearest.h"

namespace railyard {

/// What is wrong with arguments that no option of `app`, a CLI::App, has taken: the first that looks like an
/// option, and which one may have been meant. After CLI::ExtrasError, so there is one.
template <class App>
std::string unexpected(const App& app) {
    const std::vector<std::string> all = app.remaining(true);
    const auto is_option = [](const std::string& text) { return text.starts_with('-'); };
    const auto found = std::find_if(all.begin(), all.end(), is_option);
    const std::string& wrong = found == all.end() ? all.front() : *found;
    std::vector<std::string> known;
    const auto add = [&](const App& of) {
        for (const auto* option : of.get_options()) {
            for (const std::string& name : option->get_lnames())
                if (!option->get_group().empty()) known.push_back("--" + name);
        }
    };
    add(app);
    for (const App* command : app.get_subcommands(nullptr)) {
        if (command->parsed()) add(*command);
        known.push_back(command->get_name());
    }
    const std::string name = is_option(wrong) ? wrong.substr(0, wrong.find('=')) : wrong;
    return "'" + wrong + "' is no option here" + guess(name, known);
}

}  // namespace railyard
