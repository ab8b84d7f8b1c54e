#include "engine/stats_socket.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "common/descriptor.h"
#include "common/log.h"
#include "common/shortage.h"
#include "common/status.h"
#include "common/unix_address.h"
#include "engine/stats_file.h"

namespace railyard {
namespace {

constexpr int backlog = 16;

[[noreturn]] void refuse(const std::string& name, Status status, const std::string& reason) {
    throw Error(status, "stats_socket \"" + name + "\": " + reason);
}

[[noreturn]] void refuse_directory(const std::string& name, int error) {
    refuse(
        name, Status::backend,
        std::string(std::strerror(error)) + "; its directory has to be there, and writable for this process");
}

UnixAddress address_of(const std::string& name) {
    try {
        return UnixAddress(name);
    } catch (const Error& error) {
        refuse(name, error.status(), error.what());
    }
}

int new_socket() noexcept {
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

/// Among processes that start in the same directory, one at a time looks for what is left there. Whoever
/// holds it for longer than a second is not waited for.
int lock_directory(const std::string& path) {
    const int fd = open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const timespec pause{0, 10'000'000};
    for (int i = 0; fd >= 0 && i < 100 && flock(fd, LOCK_EX | LOCK_NB) != 0; ++i)
        nanosleep(&pause, nullptr);
    return fd;
}

/// A process that has gone may have left the socket open in a child of its own, which serves nobody.
bool is_served(const std::string& path, const UnixAddress& address) {
    const Descriptor probe(new_socket());
    if (probe.get() < 0) {
        const std::string reason = std::strerror(errno);
        refuse(path, Status::backend, "whether somebody serves it cannot be seen: " + reason + shortage(""));
    }
    if (connect(probe.get(), address.get(), address.length()) != 0)
        return errno != ECONNREFUSED && errno != ENOENT;
    ucred listener{};
    socklen_t length = sizeof(listener);
    if (getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &listener, &length) != 0 || listener.pid <= 0)
        return true;
    return kill(listener.pid, 0) == 0 || errno != ESRCH;
}

/// Whether a socket is there.
bool has_socket(const std::string& path) {
    struct stat there {};
    if (lstat(path.c_str(), &there) != 0) return false;
    if (!S_ISSOCK(there.st_mode)) {
        refuse(path, Status::invalid_param,
               "there is something else of that name, and no socket: take it away, or choose another name");
    }
    return true;
}

void take_away_what_is_left(const std::string& path, const UnixAddress& address) {
    if (!has_socket(path)) return;
    if (is_served(path, address)) {
        refuse(path, Status::not_allowed,
               "somebody serves it: each engine needs one of its own, as with %p (process id), %a (agent) or "
               "%i (instance) in its name");
    }
    if (unlink(path.c_str()) != 0 && errno != ENOENT)
        refuse(path, Status::backend, std::string("cannot be replaced: ") + std::strerror(errno));
}

void bind_to(int fd, const std::string& name, const UnixAddress& address) {
    if (bind(fd, address.get(), address.length()) == 0) return;
    if (errno == EADDRINUSE && !UnixAddress::is_abstract(name)) {
        take_away_what_is_left(name, address);
        if (bind(fd, address.get(), address.length()) == 0) return;
    }
    if (errno == EADDRINUSE) {
        refuse(
            name, Status::not_allowed,
            "somebody has that name: each engine needs one of its own, as with %p (process id), %a (agent) "
            "or %i (instance) in it");
    }
    refuse_directory(name, errno);
}

}  // namespace

StatsSocket::StatsSocket(const std::string& pattern, const std::string& agent, std::uint64_t nonce)
    : agent_(agent), name_(StatsFile::name(pattern, agent, nonce, "stats_socket")) {
    // As it was given: from the root it may be longer than fits into an address.
    const UnixAddress address = address_of(name_);
    const bool has_file = !UnixAddress::is_abstract(name_);
    if (has_file) name_ = StatsFile::absolute(name_, "stats_socket");
    Descriptor fd(new_socket());
    if (fd.get() < 0) refuse(name_, Status::backend, std::strerror(errno));
    const Descriptor lock(has_file ? lock_directory(name_) : -1);
    // Of the socket, so that its file begins so; the umask may take more.
    if (fchmod(fd.get(), 0600) != 0) refuse(name_, Status::backend, std::strerror(errno));
    bind_to(fd.get(), name_, address);
    struct stat file {};
    if (has_file && lstat(name_.c_str(), &file) == 0) {
        device_ = file.st_dev;
        inode_ = file.st_ino;
    }
    if (::listen(fd.get(), backlog) != 0) {
        const std::string reason = std::strerror(errno);
        if (is_ours()) unlink(name_.c_str());
        refuse(name_, Status::backend, reason);
    }
    fd_ = fd.release();
}

void StatsSocket::check(const std::string& pattern, const std::string& agent) {
    const std::string name = StatsFile::name(pattern, agent, 0, "stats_socket");
    static_cast<void>(address_of(name));
    if (UnixAddress::is_abstract(name) || has_socket(name)) return;
    if (faccessat(AT_FDCWD, directory_of(name).c_str(), W_OK | X_OK, AT_EACCESS) != 0)
        refuse_directory(name, errno);
}

StatsSocket::~StatsSocket() {
    clients_.clear();
    shutdown(fd_, SHUT_RDWR);  // in copies that forked children hold, too
    close(fd_);
    if (is_ours()) unlink(name_.c_str());
}

/// Its file may have been taken away, and another one put there.
bool StatsSocket::is_ours() const noexcept {
    struct stat file {};
    return inode_ != 0 && lstat(name_.c_str(), &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

void StatsSocket::accept_all(std::uint64_t now_ns) {
    for (std::size_t i = 0; i < most_clients && clients_.size() < most_clients; ++i) {
        Descriptor fd(accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd.get() < 0) return;
        ucred client{};
        socklen_t length = sizeof(client);
        const bool known = getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &client, &length) == 0;
        if (!known || (client.uid != geteuid() && client.uid != 0)) {
            RAILYARD_LOG(info, agent_.c_str(), "stats_socket %s: user %u was sent away", name_.c_str(),
                         static_cast<unsigned>(client.uid));
            continue;
        }
        clients_.emplace_back(fd.get(), now_ns);
        fd.release();
    }
}

std::uint64_t StatsSocket::serve(std::uint64_t now_ns, const std::function<std::string()>& report) {
    accept_all(now_ns);
    const auto fresh_report = [&] {
        if (!report_ || now_ns - reported_at_ >= report_age_ns) {
            report_ = std::make_shared<const std::string>(report());
            reported_at_ = now_ns;
        }
        return report_;
    };
    for (auto client = clients_.begin(); client != clients_.end();)
        client = client->serve(now_ns, fresh_report) ? clients_.erase(client) : std::next(client);
    if (!clients_.empty()) return now_ns + pause_ns;
    if (now_ns - reported_at_ >= report_age_ns) report_.reset();
    return UINT64_MAX;
}

}  // namespace railyard
