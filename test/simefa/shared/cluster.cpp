#include "shared/cluster.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include "shared/cluster_lock.h"

namespace simefa {
namespace {

namespace fs = std::filesystem;

constexpr const char* keep_file = "/keep";

std::string directory_of(const std::string& cluster) {
    return std::string(shared_memory_root) + "/" + directory_prefix + cluster;
}

struct Attached {
    std::mutex mutex;
    std::map<std::string, std::weak_ptr<Cluster>> clusters;
};

/// Never destroyed, as the mappings' registry.
Attached& attached() {
    static Attached* const instance = new Attached;
    return *instance;
}

std::string hex(std::uint64_t value) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016" PRIx64, value);
    return text;
}

bool matches(const NicPattern& which, const NicSlot& slot) {
    return fnmatch(which.host.c_str(), slot.host, 0) == 0 && fnmatch(which.nic.c_str(), slot.nic, 0) == 0;
}

void apply(NicSlot& slot, const ChangeList& list) {
    for (std::size_t i = 0; i < list.size; ++i) {
        const auto index = static_cast<std::size_t>(list.changes[i].setting);
        slot.settings[index].store(list.changes[i].value, std::memory_order_relaxed);
    }
    slot.epoch.fetch_add(1);
}

void apply_all(NicSlot& slot, std::string_view changes) {
    while (!changes.empty()) {
        const std::size_t comma = std::min(changes.find(','), changes.size());
        apply(slot, parse_change(changes.substr(0, comma)));
        changes.remove_prefix(std::min(comma + 1, changes.size()));
    }
}

/// Owner of a file in a cluster's directory; 0: it belongs to the cluster.
ProcessIdentity owner_of(const fs::path& file) {
    const std::string name = file.filename();
    if (name.starts_with("endpoint-")) {
        ProcessIdentity owner = 1;  // of a file that was not even filled: nobody alive
        const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) return owner;
        if (pread(fd, &owner, sizeof(owner), offsetof(EndpointRecord, owner)) != sizeof(owner) || owner == 0)
            owner = 1;
        close(fd);
        return owner;
    }
    const std::size_t dash = name.find('-');
    return dash == std::string::npos ? 0 : std::strtoull(name.c_str() + dash + 1, nullptr, 16);
}

struct Contents {
    std::size_t removed = 0;
    bool alive = false;  ///< some process lives in it
};

/// Caller holds the cluster's lock.
Contents clean(const std::string& directory, ProcessIdentity leaving) {
    Contents contents;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
        const ProcessIdentity owner = owner_of(entry.path());
        if (owner == 0) continue;
        if (owner != leaving && is_alive(owner)) {
            contents.alive = true;
        } else if (unlink(entry.path().c_str()) == 0) {
            ++contents.removed;
        }
    }
    return contents;
}

/// Caller holds the cluster's lock.
bool anyone_lives_in(const std::string& directory) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
        if (is_alive(owner_of(entry.path()))) return true;
    }
    return false;
}

/// Whether process ids mean the same to us and to those who use the directory: containers may share /dev/shm
/// and nothing else. Says so for a directory that nobody has claimed yet, and claims it.
bool shares_process_ids(const std::string& directory, bool may_claim) {
    std::error_code error;
    const fs::path claim = fs::path(directory) / "pids", own = fs::read_symlink("/proc/self/ns/pid", error);
    const fs::path known = fs::read_symlink(claim, error);
    if (!error) return known == own;
    return may_claim && symlink(own.c_str(), claim.c_str()) == 0;
}

bool is_kept(const std::string& directory) {
    return access((directory + keep_file).c_str(), F_OK) == 0;
}

}  // namespace

std::uint64_t Address::id() const noexcept {
    std::uint64_t device = 0;
    std::memcpy(&device, gid + 8, sizeof(device));
    std::uint64_t word = device ^ (std::uint64_t{connection} << 16 | queue_pair) * 0x9e3779b97f4a7c15ULL;
    word = (word ^ word >> 31) * 0xbf58476d1ce4e5b9ULL;
    return (word ^ word >> 29) | 1;
}

std::string cluster_name() {
    const char* wanted = std::getenv("SIMEFA_NAMESPACE");
    if (!wanted || !*wanted)
        return "user" + std::to_string(getuid()) + "-" + std::to_string(layout_magic & 0xff);
    const std::string name = wanted;
    check_cluster_name("SIMEFA_NAMESPACE", name);
    return name;
}

void check_cluster_name(const char* where, const std::string& name) {
    const bool good = name.size() <= 64 && name.find_first_not_of(
                                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                               "0123456789_.-") == std::string::npos;
    if (!good) throw std::invalid_argument(std::string(where) + ": up to 64 letters, digits and . _ -");
}

std::shared_ptr<Cluster> Cluster::attach(const std::string& name) {
    Attached& known = attached();
    const std::lock_guard lock(known.mutex);
    std::weak_ptr<Cluster>& slot = known.clusters[name];
    auto cluster = slot.lock();
    if (cluster && cluster->owner_ == this_process()) return cluster;
    cluster.reset(new Cluster(name));
    slot = cluster;
    return cluster;
}

Cluster::Cluster(std::string name)
    : name_(std::move(name)), directory_(directory_of(name_)), owner_(this_process()) {
    sweep_dead_clusters();
    const ClusterLock lock(directory_);
    if (!shares_process_ids(directory_, true))
        throw std::system_error(
            EPERM, std::generic_category(),
            directory_ + " is used in another process id namespace; choose another SIMEFA_NAMESPACE");
    clean(directory_, 0);
    presence_ = fresh_name("process");
    const int fd = open(path(presence_).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
    table_ = MappedFile::create(path("nics"), sizeof(NicTableRecord));
    std::uint32_t none = 0;
    if (!table().magic.compare_exchange_strong(none, layout_magic) && none != layout_magic)
        throw std::system_error(EPROTO, std::generic_category(), directory_ + " belongs to another version");
}

Cluster::~Cluster() {
    if (owner_ != this_process()) return;  // a forked child: its parent's files
    try {
        const ClusterLock lock(directory_);
        unlink(path(presence_).c_str());
        std::error_code error;
        if (!clean(directory_, 0).alive && !is_kept(directory_)) fs::remove_all(directory_, error);
    } catch (const std::exception&) {
    }
}

NicSlot& Cluster::nic(std::string_view host, std::string_view nic, std::string_view initial) {
    if (host.size() >= name_size || nic.size() >= name_size)
        throw std::runtime_error("simefa: names of hosts and NICs have at most 63 characters");
    const ClusterLock lock(directory_);
    for (NicSlot& slot : table().slots) {
        if (slot.used.load()) {
            if (host == slot.host && nic == slot.nic) return slot;
            continue;
        }
        std::memset(slot.host, 0, name_size);
        std::memset(slot.nic, 0, name_size);
        std::memcpy(slot.host, host.data(), host.size());
        std::memcpy(slot.nic, nic.data(), nic.size());
        apply_all(slot, initial);
        apply_rules(slot);
        slot.used.store(1);
        return slot;
    }
    throw std::runtime_error("simefa: more than " + std::to_string(nic_slots) + " NICs in one cluster");
}

std::uint32_t Cluster::index_of(const NicSlot& slot) const noexcept {
    return static_cast<std::uint32_t>(&slot - table().slots);
}

std::string Cluster::fresh_name(std::string_view kind) {
    static std::atomic<unsigned> next{0};
    // A process may hold this code twice, in the provider and in a test: each copy counts for itself.
    const auto copy = reinterpret_cast<std::uintptr_t>(&next) >> 3 & 0xffffff;
    return std::string(kind) + "-" + hex(owner_) + "-" + std::to_string(copy) + "-" +
           std::to_string(next.fetch_add(1));
}

std::string Cluster::endpoint_name(const Address& address) {
    return "endpoint-" + hex(address.id());
}

std::shared_ptr<MappedFile> Cluster::create(const std::string& file, std::size_t size,
                                            const std::function<void(MappedFile&)>& fill) {
    const ClusterLock lock(directory_);
    auto mapped = MappedFile::create(path(file), size);
    fill(*mapped);
    return mapped;
}

void Cluster::make_bell(const std::string& file) {
    if (mkfifo(path(file).c_str(), 0600) != 0)
        throw std::system_error(errno, std::generic_category(), "mkfifo " + path(file));
}

void Cluster::remove(const std::string& file) noexcept {
    if (owner_ == this_process()) unlink(path(file).c_str());
}

void Cluster::apply_rules(NicSlot& slot) {
    std::ifstream rules(path("rules"));
    NicPattern which;
    std::string change;
    while (std::getline(rules, which.host, '\t') && std::getline(rules, which.nic, '\t') &&
           std::getline(rules, change)) {
        if (matches(which, slot)) apply(slot, parse_change(change));
    }
}

void Cluster::set(const NicPattern& which, std::string_view key_value) {
    const ChangeList list = parse_change(key_value);
    const ClusterLock lock(directory_);
    std::ofstream(path("rules"), std::ios::app)
        << which.host << '\t' << which.nic << '\t' << key_value << '\n';
    for (NicSlot& slot : table().slots) {
        if (!slot.used.load()) break;
        if (matches(which, slot)) apply(slot, list);
    }
}

void Cluster::reset(const NicPattern& which) {
    const ClusterLock lock(directory_);
    if (which.host == "*" && which.nic == "*") unlink(path("rules").c_str());
    for (NicSlot& slot : table().slots) {
        if (!slot.used.load()) break;
        if (!matches(which, slot)) continue;
        for (auto& setting : slot.settings)
            setting.store(0, std::memory_order_relaxed);
        slot.tx_busy_until = slot.rx_busy_until = 0;
        for (std::size_t i = 0; i < counter_count; ++i) {
            const auto counter = static_cast<Counter>(i);
            if (counter != Counter::in_flight && counter != Counter::regions &&
                counter != Counter::addresses && counter != Counter::endpoints &&
                counter != Counter::receive_buffers)
                slot.counters[i].store(0, std::memory_order_relaxed);
        }
        slot.epoch.fetch_add(1);
    }
}

void Cluster::keep() {
    std::ofstream(directory_ + keep_file);
}

void Cluster::keep_no_longer() noexcept {
    unlink((directory_ + keep_file).c_str());
}

std::size_t Cluster::sweep(bool ours) noexcept {
    try {
        const ClusterLock lock(directory_);
        return clean(directory_, ours ? owner_ : 0).removed;
    } catch (const std::exception&) {
        return 0;
    }
}

std::size_t sweep_dead_processes(const std::string& cluster, bool no_longer_kept) noexcept {
    const std::string directory = directory_of(cluster);
    std::error_code error;
    if (!fs::exists(directory, error) || !shares_process_ids(directory, false)) return 0;
    try {
        const ClusterLock lock(directory);
        if (no_longer_kept) unlink((directory + keep_file).c_str());
        return clean(directory, 0).removed;
    } catch (const std::exception&) {
        return 0;
    }
}

std::size_t sweep_dead_clusters(bool kept_too) noexcept {
    std::size_t removed = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(shared_memory_root, error)) {
        if (!entry.path().filename().string().starts_with(directory_prefix)) continue;
        const std::string directory = entry.path();
        if (!kept_too && is_kept(directory)) continue;
        int descriptor = -1;
        if (!ClusterLock::try_lock(directory, descriptor)) continue;
        if (shares_process_ids(directory, false) && !anyone_lives_in(directory) &&
            fs::remove_all(directory, error) > 0)
            ++removed;
        close(descriptor);
    }
    return removed;
}

}  // namespace simefa
