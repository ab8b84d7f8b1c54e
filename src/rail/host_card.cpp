#include "rail/host_card.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "common/shortage.h"
#include "common/status.h"
#include "common/wire.h"

namespace railyard {
namespace {

constexpr std::uint8_t address_version = 1;
static_assert(sizeof(CardFace) <= card_table_offset);

std::string_view as_bytes(const void* data, std::size_t size) {
    return {static_cast<const char*>(data), size};
}

constexpr std::size_t place_of(std::uint64_t word) {
    return card_table_offset + sizeof(word) * (word & (card_words - 1));
}

/// kernel.yama.ptrace_scope=1, as Ubuntu has it, keeps all but its ancestors from a process's memory unless
/// it says otherwise (docs/adr/0039). It stays said: other engines of ours may need it, and what held before
/// is not to be found out.
void open_to_processes_of_this_user() noexcept {
    const bool said = prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0;  // EINVAL: no Yama here
    static std::atomic<bool> told{false};
    if (said && !told.exchange(true, std::memory_order_relaxed))
        RAILYARD_LOG(info, "host",
                     "processes of this user may reach this one's memory (PR_SET_PTRACER), for transfers "
                     "within the host; local_rail=off: they need not");
}

/// -1, and errno, where there is none.
int new_card_file() {
    if (!may_grow_file_to(card_size))
        throw Error(Status::backend, "no memory that others could map: the file size limit is below " +
                                         std::to_string(card_size / 1024) + " KiB: raise it (`ulimit -f`)");
    return memfd_create("railyard-card", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

}  // namespace

std::string encode(const CardAddress& address) {
    std::string bytes;
    WireWriter writer(bytes);
    writer.number(address_version);
    bytes += as_bytes(address.boot.data(), address.boot.size());
    writer.number(static_cast<std::uint32_t>(address.pid));
    writer.number(static_cast<std::uint32_t>(address.descriptor));
    writer.number(address.card);
    bytes += as_bytes(address.secret.data(), address.secret.size());
    return bytes;
}

CardAddress decode_card_address(std::string_view bytes) {
    WireReader reader(bytes);
    CardAddress address;
    const auto version = reader.number<std::uint8_t>();
    const std::string_view boot = reader.raw(address.boot.size());
    address.pid = static_cast<std::int32_t>(reader.number<std::uint32_t>());
    address.descriptor = static_cast<std::int32_t>(reader.number<std::uint32_t>());
    address.card = reader.number<std::uint64_t>();
    const std::string_view secret = reader.raw(address.secret.size());
    if (!reader.whole() || version != address_version || address.pid <= 0)
        throw Error(Status::mismatch, "what it says of its process is not understood");
    std::memcpy(address.boot.data(), boot.data(), boot.size());
    std::memcpy(address.secret.data(), secret.data(), secret.size());
    return address;
}

HostCard::HostCard() : fd_(new_card_file()) {
    // Sealed, so that nobody who maps it has to fear that it shrinks.
    const bool made =
        fd_ >= 0 && ftruncate(fd_, card_size) == 0 && fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
    memory_ = made ? mmap(nullptr, card_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0) : MAP_FAILED;
    if (memory_ == MAP_FAILED) {
        const std::string reason = std::strerror(errno);
        if (fd_ >= 0) close(fd_);
        throw Error(Status::backend, "no memory that others could map: " + reason);
    }
    try {
        CardFace face;
        for (std::size_t i = 0; i < face.secret.size(); i += sizeof(std::uint64_t)) {
            const std::uint64_t bits = random_u64();
            std::memcpy(&face.secret[i], &bits, sizeof(bits));
        }
        new (memory_) CardFace(face);
        address_ = encode({boot_id(), getpid(), fd_, reinterpret_cast<std::uint64_t>(memory_), face.secret});
    } catch (...) {
        munmap(memory_, card_size);
        close(fd_);
        throw;
    }
    open_to_processes_of_this_user();
}

/// Who has it mapped must not believe it any longer.
HostCard::~HostCard() {
    for (std::uint64_t i = 0; i < places_.size(); ++i)
        std::atomic_ref(place(i)).store(0, std::memory_order_relaxed);
    new (memory_) CardFace{0, {}};
    munmap(memory_, card_size);
    close(fd_);
}

std::uint64_t& HostCard::place(std::uint64_t word) const noexcept {
    return *reinterpret_cast<std::uint64_t*>(static_cast<char*>(memory_) + place_of(word));
}

HostCard::Indices::iterator HostCard::free_place() {
    const bool full = places_.size() == card_words;
    if (free_.size() > kept_places || (full && !free_.empty())) return free_.begin();
    if (full) return free_.end();
    // Both, or neither; and revoke() allocates nothing.
    if (places_.size() == places_.capacity()) places_.reserve(2 * places_.size() + 16);
    free_.push_front(static_cast<std::uint32_t>(places_.size()));
    places_.push_back(free_.begin());
    return free_.begin();
}

std::uint64_t HostCard::issue(std::uint64_t before) {
    std::uint64_t random = before & ~(card_words - 1);
    const MutexLock lock(mutex_);
    const std::uint64_t index = index_of(before);
    Indices::iterator free;
    if (random != 0 && index < places_.size() && place(index) == 0) {
        free = places_[index];
    } else {
        do
            random = random_u64() & ~(card_words - 1);
        while (random == 0);
        free = free_place();
        if (free == free_.end()) return 0;
    }
    const std::uint64_t word = random | *free;
    taken_.splice(taken_.end(), free_, free);
    // Peers come by the word itself through the host, long after.
    std::atomic_ref(place(word)).store(word, std::memory_order_release);
    return word;
}

void HostCard::revoke(std::uint64_t word) noexcept {
    const MutexLock lock(mutex_);
    std::atomic_ref(place(word)).store(0, std::memory_order_seq_cst);
    free_.splice(free_.end(), taken_, places_[index_of(word)]);
}

HostProcess::HostProcess(std::string_view card_address) {
    const CardAddress address = decode_card_address(card_address);
    pid_ = address.pid;
    own_ = pid_ == getpid();
    card_ = address.card;
    face_.secret = address.secret;
    file_ = "/proc/" + std::to_string(pid_) + "/fd/" + std::to_string(address.descriptor);
    if (!same_boot(address.boot, boot_id())) throw Error(Status::not_supported, "it is on another host");
    const std::string
        process = "process " + std::to_string(pid_),
        other = process +
                " is another one here: its PID namespace is not ours, or it or its main thread has ended";
    switch (const int error = look_by_memory()) {
        case 0:
            break;
        case ESRCH:
        case EFAULT:
        case ESTALE:
            throw Error(Status::not_supported, other);
        case EPERM:
        case ENOSYS:
            may_copy_ = false;
            break;
        default:
            throw Error(Status::not_supported, process + " could not be read: " + std::strerror(error));
    }
    handle_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    if (handle_ < 0) refuse_for_want(errno);
    try {
        map();
        if (look_by_card() != 0) throw Error(Status::not_supported, other);
    } catch (...) {
        give_back();
        throw;
    }
}

/// Throws Error{backend} where the error says that we are short of something, which passes.
void HostProcess::refuse_for_want(int error) const {
    if (error != EMFILE && error != ENFILE && error != ENOMEM) return;
    throw Error(Status::backend, "process " + std::to_string(pid_) +
                                     " cannot be watched now: " + std::strerror(error) + shortage());
}

void HostProcess::map() {
    const int fd = open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const int error = fd < 0 ? errno : 0;
    const int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : -1;  // also -1: no file that could have any
    struct stat status {};
    const bool ours = seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &status) == 0 &&
                      status.st_size >= static_cast<off_t>(card_size);
    void* const memory = ours ? mmap(nullptr, card_size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    const int unmapped = ours && memory == MAP_FAILED ? errno : error;
    if (fd >= 0) close(fd);
    refuse_for_want(unmapped);
    if (memory == MAP_FAILED && !may_copy_ && error != ENOENT)
        throw Error(Status::not_supported,
                    "process " + std::to_string(pid_) +
                        " may not be reached: it is another user's, or may not be traced; "
                        "`railyard-info doctor` looks at that");
    if (memory == MAP_FAILED) throw Error(Status::not_supported, file_ + " is no card that could be mapped");
    memory_ = memory;
    inode_ = status.st_ino;
}

void HostProcess::give_back() noexcept {
    if (memory_) munmap(const_cast<void*>(memory_), card_size);
    if (handle_ >= 0) close(handle_);
}

HostProcess::~HostProcess() {
    give_back();
}

bool HostProcess::vouches_for(std::uint64_t word) const noexcept {
    const auto* const place =
        reinterpret_cast<const std::uint64_t*>(static_cast<const char*>(memory_) + place_of(word));
    // Acquire: pairs with revoke(), in that nothing of the memory is touched before.
    return word != 0 &&
           std::atomic_ref(const_cast<std::uint64_t&>(*place)).load(std::memory_order_acquire) == word;
}

int HostProcess::look() const noexcept {
    if (!may_copy_) return look_by_card();
    const int error = look_by_memory();
    // Its number may have been given to another one by now; its handle knows it.
    return error != 0 && handle_ >= 0 && has_ended() ? ESRCH : error;
}

int HostProcess::look_by_memory() const noexcept {
    CardFace seen{};
    const iovec here{&seen, sizeof(seen)};
    const iovec there{reinterpret_cast<void*>(card_), sizeof(seen)};
    const ssize_t got = process_vm_readv(pid_, &here, 1, &there, 1, 0);
    if (got < 0) return errno == ESRCH ? out_of_reach() : errno;
    return got == static_cast<ssize_t>(sizeof(seen)) && seen == face_ ? 0 : ESTALE;
}

/// Its number leads to the memory and the files of its main thread, which gives them back when it ends: the
/// other threads may live on with both, or the process may be about to end. Only its handle tells which.
int HostProcess::out_of_reach() const noexcept {
    return handle_ < 0 || has_ended() ? ESRCH : ENOLINK;
}

bool HostProcess::has_ended() const noexcept {
    pollfd ended{handle_, POLLIN, 0};
    return handle_ >= 0 ? poll(&ended, 1, 0) > 0 : kill(pid_, 0) != 0 && errno == ESRCH;
}

/// Its engine has wiped the card when it was closed. A process that ends, or calls exec, closes it without
/// that, and before anybody is told of its end.
int HostProcess::look_by_card() const noexcept {
    if (has_ended()) return ESRCH;
    CardFace seen{};
    std::memcpy(&seen, memory_, sizeof(seen));
    if (seen != face_) return ESTALE;
    struct stat status {};
    if (stat(file_.c_str(), &status) != 0) return errno == ENOENT ? out_of_reach() : ESTALE;
    return status.st_ino == inode_ ? 0 : ESTALE;
}

int HostProcess::look_now_and_then() noexcept {
    const std::uint64_t now = coarse_now_ns();
    if (now == looked_at_.load(std::memory_order_relaxed)) return 0;
    const int error = look();
    if (error == 0) looked_at_.store(now, std::memory_order_relaxed);
    return error;
}

}  // namespace railyard
