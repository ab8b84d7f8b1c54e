// The other process of a test: this program again, in the role of railyard-bench's target.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "control.h"
#include "options.h"

namespace railyard::gpu {

/// railyard-bench's options from its own words. Throws bench::Failure with its message.
[[nodiscard]] bench::Options bench_options(const std::vector<std::string>& words);

/// Started at once, with the same words; killed and reaped at the latest when this goes. One thread.
class TargetProcess {
  public:
    /// Throws bench::Failure.
    explicit TargetProcess(const std::vector<std::string>& words);
    ~TargetProcess();
    TargetProcess(const TargetProcess&) = delete;
    TargetProcess& operator=(const TargetProcess&) = delete;

    /// The conversation with it; once.
    [[nodiscard]] bench::Control take_control();

  private:
    pid_t pid_ = -1;
    std::optional<bench::Control> control_;
};

/// What the started program does: serves until the initiator lets go. Returns its exit status.
[[nodiscard]] int serve_as_target(int descriptor, const std::vector<std::string>& words);

}  // namespace railyard::gpu
