#include "schedule.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

namespace railyard::fault {
namespace {

struct VerbForm {
    std::string_view name;
    std::size_t numbers;
    bool setting = false;
};
constexpr std::array<VerbForm, static_cast<std::size_t>(Verb::count)> verbs = {{
    {"post", 1},
    {"wait", 1},
    {"release", 1},
    {"drive", 1},
    {"notify", 4},
    {"fault", 2, true},
    {"calm", 2},
    {"destroy", 1},
    {"create", 1},
    {"disconnect", 2},
    {"connect", 2},
    {"deregister", 2},
    {"enlist", 2},
    {"check", 0},
}};

const VerbForm& form_of(Verb verb) {
    return verbs[static_cast<std::size_t>(verb)];
}

[[noreturn]] void refuse(const std::string& line) {
    throw std::runtime_error("cannot read this line of the schedule: " + line);
}

/// The next word, which must be `wanted`.
void expect(std::istringstream& words, std::string_view wanted, const std::string& line) {
    std::string word;
    if (!(words >> word) || word != wanted) refuse(line);
}

template <class T>
T take(std::istringstream& words, const std::string& line) {
    T value{};
    if (!(words >> value)) refuse(line);
    return value;
}

EngineSpec parse_engine(std::istringstream& words, const std::string& line) {
    EngineSpec engine;
    take<int>(words, line);  // its number, which is its place
    expect(words, "rails", line);
    engine.rails = std::clamp(take<int>(words, line), 1, 8);
    expect(words, "progress", line);
    engine.progress_thread = take<std::string>(words, line) == "thread";
    for (std::string word; words >> word;) {
        if (word == "timeout") {
            engine.xfer_timeout_ms = std::max(take<int>(words, line), 0);
        } else if (word == "secret") {
            engine.secret = take<int>(words, line);
        } else {
            refuse(line);
        }
    }
    return engine;
}

TransferSpec parse_transfer(std::istringstream& words, const std::string& line) {
    TransferSpec transfer;
    transfer.id = take<int>(words, line);
    transfer.read = take<std::string>(words, line) == "read";
    expect(words, "from", line);
    transfer.from = take<int>(words, line);
    expect(words, "to", line);
    transfer.to = take<int>(words, line);
    expect(words, "region", line);
    transfer.region = take<int>(words, line);
    expect(words, "notification", line);
    transfer.notification = take<int>(words, line);
    expect(words, "sizes", line);
    for (std::uint32_t size = 0; words >> size;)
        transfer.sizes.push_back(size);
    return transfer;
}

Step parse_step(std::istringstream& words, const std::string& line) {
    Step step;
    const auto thread = take<std::string>(words, line);
    step.thread = thread == "*" ? everybody : std::stoi(thread);
    const auto name = take<std::string>(words, line);
    const auto found =
        std::find_if(verbs.begin(), verbs.end(), [&](const VerbForm& form) { return form.name == name; });
    if (found == verbs.end()) refuse(line);
    step.verb = static_cast<Verb>(found - verbs.begin());
    for (std::size_t i = 0; i < found->numbers; ++i)
        step.numbers.push_back(take<int>(words, line));
    if (found->setting) step.setting = take<std::string>(words, line);
    return step;
}

void check(const Schedule& schedule) {
    const auto engines = static_cast<int>(schedule.engines.size());
    if (engines < 1 || schedule.threads < 1) throw std::runtime_error("a schedule needs engines and threads");
    for (const TransferSpec& transfer : schedule.transfers) {
        if (transfer.from < 0 || transfer.from >= engines || transfer.to < 0 || transfer.to >= engines ||
            transfer.region < 0 || transfer.region >= region_slots) {
            throw std::runtime_error("transfer " + std::to_string(transfer.id) +
                                     " names an engine or a region that there is not");
        }
    }
}

}  // namespace

std::string to_text(const Step& step) {
    const VerbForm& form = form_of(step.verb);
    std::string text = step.thread == everybody ? "*" : std::to_string(step.thread);
    text += ' ';
    text += form.name;
    for (const int number : step.numbers)
        text += ' ' + std::to_string(number);
    if (form.setting) text += ' ' + step.setting;
    return text;
}

std::string to_text(const Schedule& schedule) {
    std::ostringstream text;
    text << "seed " << schedule.seed << '\n';
    text << "machine " << schedule.machine << ' ' << schedule.provider << " threads " << schedule.threads
         << '\n';
    for (std::size_t i = 0; i < schedule.engines.size(); ++i) {
        const EngineSpec& engine = schedule.engines[i];
        text << "engine " << i << " rails " << engine.rails << " progress "
             << (engine.progress_thread ? "thread" : "callers");
        if (engine.xfer_timeout_ms) text << " timeout " << engine.xfer_timeout_ms;
        if (engine.secret) text << " secret " << engine.secret;
        text << '\n';
    }
    for (const TransferSpec& transfer : schedule.transfers) {
        text << "transfer " << transfer.id << (transfer.read ? " read" : " write") << " from "
             << transfer.from << " to " << transfer.to << " region " << transfer.region << " notification "
             << transfer.notification << " sizes";
        for (const std::uint32_t size : transfer.sizes)
            text << ' ' << size;
        text << '\n';
    }
    for (const Step& step : schedule.steps)
        text << "step " << to_text(step) << '\n';
    return text.str();
}

Schedule parse_schedule(std::string_view text) {
    Schedule schedule;
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string kind;
        if (!(words >> kind) || kind.starts_with('#')) continue;
        if (kind == "seed") {
            schedule.seed = take<std::uint64_t>(words, line);
        } else if (kind == "machine") {
            schedule.machine = take<std::string>(words, line);
            schedule.provider = take<std::string>(words, line);
            expect(words, "threads", line);
            schedule.threads = take<int>(words, line);
        } else if (kind == "engine") {
            schedule.engines.push_back(parse_engine(words, line));
        } else if (kind == "transfer") {
            schedule.transfers.push_back(parse_transfer(words, line));
        } else if (kind == "step") {
            schedule.steps.push_back(parse_step(words, line));
        } else {
            refuse(line);
        }
    }
    check(schedule);
    return schedule;
}

}  // namespace railyard::fault
