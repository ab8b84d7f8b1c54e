// What peers know memory by, kept for when it is registered again.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include <absl/base/thread_annotations.h>

#include "common/memory_range.h"
#include "common/mutex.h"
#include "common/recent_table.h"

namespace railyard {

class Registration;
struct KeyTable;

/// One range. Who registers or deregisters it holds the mutex meanwhile.
struct KnownRange {
    struct Place {
        std::uint64_t address = 0;
        std::uint64_t length = 0;  ///< bytes
        std::uint64_t device_id = 0;
        MemoryType type = MemoryType::host;
        std::uint64_t allocation = 0;  ///< of a GPU's memory (PointerInfo::buffer_id)
        auto operator<=>(const Place&) const = default;
    };
    struct Names {
        std::uint64_t number = 0;           ///< random; 0: none has been drawn
        std::uint64_t word = 0;             ///< of the host rail; 0: it has given none
        std::optional<std::uint32_t> turn;  ///< of host memory, by which it has its rails (RailPlacement)
        /// By NICs that draw their keys; nullptr: there are none.
        std::shared_ptr<const KeyTable> first;
    };

    KnownRange(const Place& where, const Names& before) : names(before), place(where) {}

    Mutex mutex;
    Names names ABSL_GUARDED_BY(mutex);
    /// The latest one of that range, now; the others follow by Registration::earlier.
    Registration* registered ABSL_GUARDED_BY(mutex) = nullptr;
    void add(Registration& region) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
    void remove(const Registration& region) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

    const Place place;
    std::size_t users = 0;  ///< KnownRanges'
};

/// A host that describes its memory to others may do so once for each range, and refuse another description
/// of it later (NIXL): a range that is registered again is known by what it was known by before. Those that
/// are registered are all kept, of the others the last ones. Any thread.
class KnownRanges {
  public:
    /// Ranges that are not registered any more.
    static constexpr std::size_t most_left = 4096;

    /// `keep` false: what is registered again is known by something else.
    explicit KnownRanges(bool keep) : keep_(keep) {}
    /// The range, for one more user; it stays where it is until the last one has left. Throws std::bad_alloc.
    KnownRange& enter(const KnownRange::Place& place);
    void leave(KnownRange& range) noexcept;

  private:
    /// Registering takes as long with a hundred thousand ranges as with one.
    struct Hash {
        std::size_t operator()(const KnownRange::Place& place) const noexcept {
            return (place.address ^ place.length << 1 ^ place.device_id << 48) * 0x9e3779b97f4a7c15;
        }
    };
    using Ranges = std::unordered_multimap<KnownRange::Place, KnownRange, Hash>;

    const bool keep_;
    Mutex mutex_;
    Ranges used_ ABSL_GUARDED_BY(mutex_);  ///< where none is kept, one for each user
    RecentTable<KnownRange::Names, KnownRange::Place> left_ ABSL_GUARDED_BY(mutex_){most_left};
};

}  // namespace railyard
