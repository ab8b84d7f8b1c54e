// The file in which a running engine keeps its state, for people and for Prometheus.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "engine/live_report.h"

namespace railyard {

/// Made when the setting stats_file names a file, which goes with the object. One thread at a time.
class StatsFile {
  public:
    static constexpr std::uint64_t interval_ns = 1'000'000'000;

    /// The file's name: in `pattern`, %p is the process id, %a the agent's name (what a file name should not
    /// have in it as _, at most 64 bytes), %i the engine's instance in hexadecimal, and %% a percent sign.
    /// Throws Error{invalid_param} for any other, naming `setting`.
    [[nodiscard]] static std::string name(const std::string& pattern, const std::string& agent,
                                          std::uint64_t nonce, const char* setting = "stats_file");

    /// The same for the engine of another process, whose number is `process` where it runs.
    [[nodiscard]] static std::string name_in(std::uint64_t process, const std::string& pattern,
                                             const std::string& agent, std::uint64_t nonce,
                                             const char* setting = "stats_file");
    /// `name` from the root, so that it stays the same file when the program changes its working directory.
    /// Throws Error{invalid_param}, naming `setting`, where there is none.
    [[nodiscard]] static std::string absolute(const std::string& name, const char* setting = "stats_file");

    /// Writes nothing yet; takes away what killed processes have left (remove_leftovers).
    StatsFile(const std::string& pattern, const std::string& agent, std::uint64_t nonce);
    ~StatsFile();
    StatsFile(const StatsFile&) = delete;
    StatsFile& operator=(const StatsFile&) = delete;

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] bool due(std::uint64_t now_ns) const noexcept { return now_ns >= due_at_; }
    /// Replaces the file as a whole: no reader sees half of it. Some tens of microseconds on a local file
    /// system. What fails is logged, once until it works again; and once that another engine writes there,
    /// too, which is seen by what was written having been replaced: whoever has ended replaces nothing.
    void write(const LiveReport& report, std::uint64_t now_ns) noexcept;

  private:
    /// 0, or the errno of what failed.
    [[nodiscard]] int replace() noexcept;
    /// There is a file, which is not the one written last.
    [[nodiscard]] bool is_replaced() const noexcept;
    void warn_of_another() noexcept;

    const std::string agent_;
    const std::uint64_t nonce_;
    const std::string path_;
    const std::string temporary_;  ///< beside it, of this engine alone
    const std::string lock_line_;
    int locked_ = -1;  ///< what was written last, with the lock of lock_line_
    std::string text_;
    std::uint64_t due_at_ = 0;  ///< ns
    struct stat last_ {};       ///< of what was written last
    bool written_ = false;
    bool failing_ = false;
    bool shared_ = false;  ///< that was said
};

}  // namespace railyard
