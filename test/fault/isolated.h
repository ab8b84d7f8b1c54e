// One schedule in a process of its own: what breaks there, breaks alone, and the same seed sees the same
// NICs.
#pragma once

#include <string>

#include "player.h"

namespace railyard::fault {

struct Verdict {
    Wrong wrong = Wrong::none;
    std::string text;    ///< what was wrong
    std::string stacks;  ///< of all threads of a hang
};

/// Memory that child processes count in. One at a time.
class Arena {
  public:
    Arena();
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    [[nodiscard]] Counts& counts() noexcept;

  private:
    friend Verdict play_isolated(const Schedule& schedule, const PlayOptions& options, Arena& arena);
    struct Shared;
    Shared* shared_;
};

/// Forks; the child takes its NICs from FI_PROVIDER_PATH, and their machine from beside HWLOC_XMLFILE. Ends
/// it, with stacks, where it does not end by itself. Counts the verdict, too.
Verdict play_isolated(const Schedule& schedule, const PlayOptions& options, Arena& arena);

}  // namespace railyard::fault
