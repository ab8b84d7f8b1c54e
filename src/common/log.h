// Log lines on stderr: time, level, the object's id, text. Process-wide level; never throws.
#pragma once

#include <string_view>

namespace railyard::log {

enum class Level : int { trace, debug, info, warn, error, off };

/// Reads TRACE, DEBUG, INFO, WARN(ING), ERROR, or OFF, which FATAL is another word for, in any case. Returns
/// false and leaves `level` alone else.
bool parse_level(std::string_view text, Level& level) noexcept;

/// Sets the level of the whole process image; lines below it cost one relaxed load. Any thread.
void set_level(Level level) noexcept;
[[nodiscard]] bool enabled(Level level) noexcept;

/// Receives each finished line without its newline. Any thread may call it, one at a time.
using Sink = void (*)(Level level, const char* line);
/// Replaces stderr as the destination; nullptr restores it. For tests and embedding programs.
void set_sink(Sink sink) noexcept;

/// Formats and writes one line. `id` names the object (rail, peer, engine), "" for none.
void write(Level level, const char* id, const char* format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

}  // namespace railyard::log

/// RAILYARD_LOG(info, rail_id, "opened %s", name): arguments are evaluated only when the level is on.
#define RAILYARD_LOG(level, id, ...)                                                  \
    do {                                                                              \
        if (::railyard::log::enabled(::railyard::log::Level::level))                  \
            ::railyard::log::write(::railyard::log::Level::level, (id), __VA_ARGS__); \
    } while (0)
