#include "counts.h"

#include <sstream>

namespace railyard::fault {

const char* to_string(Wrong wrong) noexcept {
    constexpr const char* names[] = {"nothing",
                                     "hang",
                                     "wrong bytes",
                                     "guard bytes changed",
                                     "late write",
                                     "error",
                                     "lost notification",
                                     "duplicate notification",
                                     "bad notification",
                                     "exception",
                                     "crash"};
    static_assert(std::size(names) == static_cast<std::size_t>(Wrong::count));
    return names[static_cast<std::size_t>(wrong)];
}

std::string to_text(const Counts& counts, double seconds) {
    std::ostringstream text;
    text << counts.seeds << " seeds, " << counts.steps << " steps, " << counts.transfers << " transfers, "
         << counts.bytes << " bytes, " << counts.notifications << " notifications; ends:";
    for (std::size_t i = 0; i < counts.ends.size(); ++i) {
        if (const std::uint64_t count = counts.ends[i])
            text << ' ' << count << ' ' << railyard::to_string(static_cast<Status>(i)) << ',';
    }
    text << " faults:";
    for (std::size_t i = 0; i < fault_count; ++i) {
        if (const std::uint64_t count = counts.faults[i])
            text << ' ' << count << ' ' << fault_names[i] << ',';
    }
    text << " wrong:";
    for (std::size_t i = 1; i < counts.wrongs.size(); ++i)
        text << ' ' << counts.wrongs[i] << ' ' << to_string(static_cast<Wrong>(i)) << ',';
    text.precision(1);
    text << ' ' << std::fixed << seconds << " s";
    return text.str();
}

}  // namespace railyard::fault
