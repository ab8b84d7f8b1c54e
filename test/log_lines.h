// What the log says, for a test to look at.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "common/log.h"

namespace railyard::test {

/// Collects the log's lines, of every thread, for as long as it lives; one at a time.
class LogLines {
  public:
    LogLines() {
        clear();
        log::set_sink([](log::Level, const char* line) {
            const std::lock_guard lock(store().mutex);
            store().lines.emplace_back(line);
        });
    }
    /// At this level, and at the usual one afterwards.
    explicit LogLines(log::Level level) : LogLines() {
        changed_ = true;
        log::set_level(level);
    }
    ~LogLines() {
        log::set_sink(nullptr);
        if (changed_) log::set_level(log::Level::warn);
    }
    LogLines(const LogLines&) = delete;
    LogLines& operator=(const LogLines&) = delete;

    [[nodiscard]] static std::vector<std::string> all() {
        const std::lock_guard lock(store().mutex);
        return store().lines;
    }
    /// Lines with `part` in them.
    [[nodiscard]] static long count(const std::string& part = "") {
        const std::lock_guard lock(store().mutex);
        return std::count_if(store().lines.begin(), store().lines.end(),
                             [&](const std::string& line) { return line.find(part) != std::string::npos; });
    }
    [[nodiscard]] static bool contain(const std::string& part) { return count(part) > 0; }
    static void clear() {
        const std::lock_guard lock(store().mutex);
        store().lines.clear();
    }

  private:
    struct Store {
        std::mutex mutex;
        std::vector<std::string> lines;
    };
    /// Outlives the collector: a thread may be on its way to the sink when that is taken away.
    static Store& store() {
        static Store* const all = new Store;
        return *all;
    }

    bool changed_ = false;
};

}  // namespace railyard::test
