#include "common/log.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace railyard::log {
namespace {

std::atomic<Level> current_level{Level::warn};
std::atomic<Sink> current_sink{nullptr};

constexpr const char* names[] = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"};

bool equals_ignoring_case(std::string_view text, const char* name) noexcept {
    return text.size() == std::strlen(name) && strncasecmp(text.data(), name, text.size()) == 0;
}

}  // namespace

bool parse_level(std::string_view text, Level& level) noexcept {
    if (equals_ignoring_case(text, "WARNING")) text = "WARN";
    if (equals_ignoring_case(text, "FATAL")) text = "OFF";  // NIXL's: nothing of ours ends the process
    for (int i = 0; i <= static_cast<int>(Level::off); ++i) {
        if (equals_ignoring_case(text, names[i])) {
            level = static_cast<Level>(i);
            return true;
        }
    }
    return false;
}

void set_level(Level level) noexcept {
    current_level.store(level, std::memory_order_relaxed);
}

bool enabled(Level level) noexcept {
    return level >= current_level.load(std::memory_order_relaxed);
}

void set_sink(Sink sink) noexcept {
    current_sink.store(sink, std::memory_order_release);
}

void write(Level level, const char* id, const char* format, ...) noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    tm parts{};
    gmtime_r(&now.tv_sec, &parts);
    char line[1024];
    int used =
        std::snprintf(line, sizeof(line), "%02d:%02d:%02d.%06ld %-5s [%ld] railyard%s%s: ", parts.tm_hour,
                      parts.tm_min, parts.tm_sec, now.tv_nsec / 1000, names[static_cast<int>(level)],
                      syscall(SYS_gettid), *id ? " " : "", id);
    if (used < 0) return;
    std::size_t offset = static_cast<std::size_t>(used) < sizeof(line) ? static_cast<std::size_t>(used) : 0;
    va_list args;
    va_start(args, format);
    int text = std::vsnprintf(line + offset, sizeof(line) - offset - 1, format, args);
    va_end(args);
    if (text < 0) return;
    std::size_t length = std::strlen(line);
    if (Sink sink = current_sink.load(std::memory_order_acquire)) {
        sink(level, line);
        return;
    }
    line[length] = '\n';
    // One write per line, so that lines of several threads and processes do not mix.
    [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line, length + 1);
}

}  // namespace railyard::log
