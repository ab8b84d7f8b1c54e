// One simulated cluster: the directory in shared memory that its processes meet in.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "shared/layout.h"
#include "shared/mapped_file.h"

namespace simefa {

/// Name of the cluster that the environment asks for: SIMEFA_NAMESPACE, else one per user and layout. Throws
/// std::invalid_argument for a name that cannot be part of a file name.
[[nodiscard]] std::string cluster_name();
/// Throws std::invalid_argument, which begins with `where`, for a name that makes no directory.
void check_cluster_name(const char* where, const std::string& name);

/// Shell patterns, as fnmatch has them.
struct NicPattern {
    std::string host = "*";
    std::string nic = "*";
};

/// The control path of what is shared: any thread, takes a lock between processes (which the kernel frees
/// when its holder dies), may block on it for as long as another process creates or removes files. Attaching
/// removes what dead processes left. The last process to leave removes the directory, unless it was kept.
class Cluster {
  public:
    /// One object per name and process. Throws std::system_error.
    static std::shared_ptr<Cluster> attach(const std::string& name);
    ~Cluster();
    Cluster(const Cluster&) = delete;
    Cluster& operator=(const Cluster&) = delete;

    [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
    [[nodiscard]] std::string path(std::string_view file) const {
        return directory_ + "/" + std::string(file);
    }

    /// The slot of this NIC, made on first use with the settings `initial` (KEY=VALUE, separated by commas),
    /// then those that `set` said for it. Throws std::runtime_error when there are too many,
    /// std::invalid_argument for bad settings. Lives as long as the cluster object.
    NicSlot& nic(std::string_view host, std::string_view nic, std::string_view initial = {});
    [[nodiscard]] NicTableRecord& table() const noexcept { return table_->as<NicTableRecord>(); }
    [[nodiscard]] std::uint32_t index_of(const NicSlot& slot) const noexcept;

    /// Name of a file that no other call returns: KIND-<owner>-<number>. Swept when this process is dead.
    std::string fresh_name(std::string_view kind);
    static std::string endpoint_name(const Address& address);
    /// Creates a record of ours: `size` zero bytes, then `fill` writes it, all before anybody can sweep it.
    std::shared_ptr<MappedFile> create(const std::string& file, std::size_t size,
                                       const std::function<void(MappedFile&)>& fill);
    void make_bell(const std::string& file);
    void remove(const std::string& file) noexcept;

    /// Changes settings, of NICs that come later, too. Throws std::invalid_argument.
    void set(const NicPattern& which, std::string_view key_value);
    /// Settings back to nothing, counters to zero (those that say what is there now stay).
    void reset(const NicPattern& which);
    /// The directory stays when the last process leaves.
    void keep();
    void keep_no_longer() noexcept;
    /// Removes what dead processes left; returns the number of files. With `ours`, this process's, too.
    std::size_t sweep(bool ours = false) noexcept;

  private:
    explicit Cluster(std::string name);
    void apply_rules(NicSlot& slot);

    std::string name_, directory_, presence_;
    ProcessIdentity owner_;
    std::shared_ptr<MappedFile> table_;
};

/// Directories of clusters in which no process lives are removed; returns their number. Kept ones stay unless
/// `kept_too`.
std::size_t sweep_dead_clusters(bool kept_too = false) noexcept;

/// In one cluster, to which nobody here needs to be attached: removes what dead processes left in it, and
/// says how many files that were; with `no_longer_kept`, it goes with the last of its processes.
std::size_t sweep_dead_processes(const std::string& cluster, bool no_longer_kept) noexcept;

}  // namespace simefa
