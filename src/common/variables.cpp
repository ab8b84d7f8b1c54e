#include "common/variables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/mutex.h"
#include "common/nearest.h"
#include "common/params.h"

namespace railyard {
namespace {

constexpr std::string_view prefix = "RAILYARD_";

/// Read by our tools, scripts and tests, and no settings.
constexpr std::string_view others[] = {
    "RAILYARD_CACHE",         "RAILYARD_DEBIAN_MIRROR", "RAILYARD_EXIT_CASE",
    "RAILYARD_NETNS",         "RAILYARD_PLUGIN_DIR",    "RAILYARD_SIM_TARGET",
    "RAILYARD_VERBS_DEVICES", "RAILYARD_VERBS_FOR",     "RAILYARD_WRITE_CORPUS",
};
constexpr std::string_view of_tests = "RAILYARD_TEST_";

/// Kubernetes tells every pod of the services of its namespace, in names made of theirs: one may be called
/// railyard.
bool of_a_service(std::string_view name) {
    return name.ends_with("_SERVICE_HOST") || name.ends_with("_PORT") ||
           name.find("_PORT_") != std::string_view::npos;
}

std::vector<std::string> known_names() {
    std::vector<std::string> names;
    for (const ParamDoc& doc : param_docs())
        names.push_back(doc.env);
    names.insert(names.end(), std::begin(others), std::end(others));
    return names;
}

bool first_time(const std::string& name) {
    static Mutex mutex;
    static std::set<std::string>* const said = new std::set<std::string>;
    const MutexLock lock(mutex);
    return said->insert(name).second;
}

}  // namespace

std::vector<UnreadVariable> unread_variables(const char* const* environment) {
    std::vector<UnreadVariable> found;
    if (!environment) return found;
    std::vector<std::string> known;
    for (; *environment; ++environment) {
        const std::string_view entry = *environment;
        const std::string name(entry.substr(0, entry.find('=')));
        if (!name.starts_with(prefix) || name.starts_with(of_tests) || of_a_service(name)) continue;
        if (known.empty()) known = known_names();
        if (std::find(known.begin(), known.end(), name) == known.end())
            found.push_back({name, guess(name, known)});
    }
    return found;
}

std::vector<UnreadVariable> unread_variables() {
    return unread_variables(environ);
}

void warn_of_unknown_variables(const char* const* environment) {
    for (const UnreadVariable& variable : unread_variables(environment)) {
        if (!first_time(variable.name)) continue;
        RAILYARD_LOG(warn, "", "the environment sets %s, which nothing reads%s", variable.name.c_str(),
                     variable.guess.c_str());
    }
}

void warn_of_unknown_variables() {
    warn_of_unknown_variables(environ);
}

std::string in_environment(std::initializer_list<const char*> names) {
    std::string text;
    for (const char* name : names) {
        if (const char* value = std::getenv(name))
            text +=
                (text.empty() ? "; in the environment " : ", ") + std::string(name) + " is \"" + value + "\"";
    }
    return text;
}

}  // namespace railyard
