// The memory handles that one engine has given to its host.
#pragma once

#include <backend/backend_aux.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/memory_range.h"
#include "common/mutex.h"

namespace railyard {
class Registration;
class RemoteRegion;
}  // namespace railyard

namespace railyard::plugin {

/// What the host holds for a region: local (registerMem), or the target of transfers (loadRemoteMD, and
/// loadLocalMD for transfers to ourselves). Exactly one of the two pointers is set; both never change.
class MemoryHandle final : public nixlBackendMD {
  public:
    MemoryHandle(std::shared_ptr<Registration> region, std::uint64_t address, std::uint64_t length,
                 MemoryType type)
        : nixlBackendMD(true), local(std::move(region)), address_(address), length_(length), type_(type) {}
    explicit MemoryHandle(std::shared_ptr<RemoteRegion> region)
        : nixlBackendMD(false), remote(std::move(region)) {}

    const std::shared_ptr<Registration> local;
    const std::shared_ptr<RemoteRegion> remote;

  private:
    friend class MemoryTable;
    std::uint64_t address_ = 0;  ///< of a local region
    std::uint64_t length_ = 0;
    MemoryType type_ = MemoryType::host;
    bool listed_ = false;  ///< among the table's local regions
};

/// Owns the handles. A pointer that the table does not own is answered with nullptr, so that a host's second
/// deregisterMem or unloadMD, or a descriptor list that outlived its registration, is an error instead of a
/// crash. Any thread.
class MemoryTable {
  public:
    MemoryHandle* adopt(std::unique_ptr<MemoryHandle> handle);
    /// Looks handles up; while it lives, none of them goes and none comes.
    class Lookup;
    /// Its region is found by region_around() no more. The handle stays.
    void withdraw(const nixlBackendMD* pointer) noexcept;
    /// Takes the handle out of the table; nullptr as for find.
    std::unique_ptr<MemoryHandle> remove(const nixlBackendMD* pointer);

    struct Range {
        std::uint64_t address = 0;
        std::uint64_t length = 0;
        MemoryType type = MemoryType::host;
    };
    /// A registered local region of that type that holds all of `wanted`, if there is one.
    [[nodiscard]] std::optional<Range> region_around(const Range& wanted) const;

  private:
    void unlist(MemoryHandle& handle) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    mutable SharedMutex mutex_;
    std::unordered_map<const nixlBackendMD*, std::unique_ptr<MemoryHandle>> handles_ ABSL_GUARDED_BY(mutex_);
    /// Each local region by address; regions may overlap.
    std::multimap<std::uint64_t, Range> local_regions_ ABSL_GUARDED_BY(mutex_);
};

class ABSL_SCOPED_LOCKABLE MemoryTable::Lookup {
  public:
    explicit Lookup(const MemoryTable& table) ABSL_SHARED_LOCK_FUNCTION(table.mutex_)
        : table_(table), lock_(table.mutex_) {}
    ~Lookup() ABSL_UNLOCK_FUNCTION() = default;
    Lookup(const Lookup&) = delete;
    Lookup& operator=(const Lookup&) = delete;

    /// The handle behind the host's pointer, nullptr for a foreign or finished one; valid as long as this is.
    [[nodiscard]] const MemoryHandle* find(const nixlBackendMD* pointer) {
        return pointer == last_pointer_ ? last_ : look_up(pointer);
    }

  private:
    const MemoryHandle* look_up(const nixlBackendMD* pointer);

    const MemoryTable& table_;
    SharedLock lock_;
    /// The last one found: lists name one region many times in a row.
    const nixlBackendMD* last_pointer_ = nullptr;
    const MemoryHandle* last_ = nullptr;
};

}  // namespace railyard::plugin
