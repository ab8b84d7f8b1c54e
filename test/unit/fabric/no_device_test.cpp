// What is said where rails reach no other machine, on machines that are not here.
#include "fabric/no_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "common/write_all.h"
#include "log_lines.h"

namespace railyard::fabric {
namespace no_device_test {

const NetworkInterface loopback{"lo", true, true, AddressKind::ipv4},
    eth0{"eth0", true, false, AddressKind::ipv4}, docker0{"docker0", true, false, AddressKind::ipv4},
    unnumbered{"eno1", true, false, AddressKind::none}, down{"eth1", false, false, AddressKind::ipv4};
const Offered shm{"shm", {"shm"}};

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// The warning of rails of that family on that device.
std::string warned(const char* family, const char* device, const char* devices,
                   const std::vector<Offered>& offered, const std::vector<NetworkInterface>& interfaces) {
    const test::LogLines log;
    std::vector<Device> taken(1);
    taken[0].family = family;
    taken[0].name = device;
    // What was said last is not said again.
    warn_of_staying_here(taken, {}, {}, {{"other0", true, false, AddressKind::ipv4}, loopback});
    test::LogLines::clear();
    for (int engine = 0; engine < 2; ++engine)
        warn_of_staying_here(taken, parse_device_filter(devices), offered, interfaces);
    EXPECT_LE(log.count(), 1);
    return log.count() ? log.all().front() : "";
}
std::string warned_of_shm(const char* devices, const std::vector<Offered>& offered,
                          const std::vector<NetworkInterface>& interfaces) {
    return warned("shm", "shm", devices, offered, interfaces);
}

TEST(StayingHere, InterfacesThatLeadSomewhereAreNamed) {
    const std::string text = warned_of_shm("", {shm}, {loopback, docker0, unnumbered, eth0, down});
    for (const char* part : {"auto takes shm, which reaches no other machine: ",
                             "tcp on none of the network interfaces that are up and have an address (eth0)",
                             "railyard-info doctor", "where shm is meant, set provider=shm"})
        EXPECT_TRUE(has(text, part)) << part << ": " << text;
}

TEST(StayingHere, SoAreDevicesThatAreNoInterface) {
    const std::string text = warned_of_shm("", {{"tcp", {"tcp"}}, {"tcp", {"tcp"}}, shm}, {loopback, down});
    EXPECT_TRUE(has(text, "tcp has tcp, and none of it is up and has an address")) << text;
}

TEST(StayingHere, TheLoopbackIsNoBetter) {
    const std::vector<Offered> offered{{"tcp", {"lo"}}};
    const std::string text = warned("tcp", "lo", "", offered, {loopback, eth0});
    EXPECT_TRUE(has(text, "tcp takes lo, which reaches no other machine: ")) << text;
    EXPECT_TRUE(has(text, "(eth0)")) << text;
    EXPECT_TRUE(has(text, "where lo is meant, set devices=lo")) << text;
    EXPECT_EQ(warned("tcp", "lo", "lo", offered, {loopback, eth0}), "") << "that is what was named";
    EXPECT_EQ(warned("tcp", "lo", "^eth0", offered, {loopback, eth0}), "");
    EXPECT_EQ(warned("tcp", "lo", "", {{"tcp", {"docker0", "lo"}}}, {loopback, docker0, unnumbered, down}),
              "");
    EXPECT_EQ(warned("tcp", "ib0", "", {{"tcp", {"ib0"}}}, {loopback, eth0}), "");
}

TEST(StayingHere, NothingIsSaidWhereThereIsNothing) {
    EXPECT_EQ(warned_of_shm("", {{"tcp", {"lo"}}, shm}, {loopback}), "");
    EXPECT_EQ(warned_of_shm("", {{"tcp", {"lo"}}, shm}, {loopback, docker0, unnumbered, down}), "");
    EXPECT_EQ(warned_of_shm("", {shm}, {}), "");
    EXPECT_EQ(warned_of_shm("shm", {shm}, {eth0}), "") << "shm is what was named";
    EXPECT_EQ(warned_of_shm("^eth0", {shm}, {loopback, eth0}), "");
    EXPECT_NE(warned_of_shm("^eth2", {shm}, {loopback, eth0}), "");
}

/// Where /dev/shm has so much room, in a child with mounts of its own; nothing where it may not have those.
std::optional<std::string> error_of_shm_in(const char* options) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
    const pid_t child = fork();
    if (child == 0) {
        const bool mounted = unshare(CLONE_NEWNS) == 0 &&
                             mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                             mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
        if (!mounted) _exit(77);
        std::string text = "found";
        try {
            static_cast<void>(discover("shm", {}, false));
        } catch (const Error& error) {
            text = error.what();
        }
        _exit(write_all(ends[1], text));
    }
    close(ends[1]);
    std::string text;
    char piece[256];
    for (ssize_t got = 0; (got = read(ends[0], piece, sizeof(piece))) > 0;)
        text.append(piece, static_cast<std::size_t>(got));
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::optional(text) : std::nullopt;
}

/// libfabric leaves shm out then, and says so in its own log alone.
TEST(SmallSharedMemory, IsWhatIsSaidWhereShmIsNotOfferedForIt) {
    const auto small = error_of_shm_in("size=1m"), large = error_of_shm_in("size=64g");
    if (!small || !large) GTEST_SKIP() << "no mounts of its own for this user";
    EXPECT_EQ(*large, "found");
    if (*small == "found") GTEST_SKIP() << "this libfabric offers shm all the same";
    for (const char* part : {"/dev/shm has 1 MiB free", "16 MiB a core", "--shm-size"})
        EXPECT_TRUE(has(*small, part)) << part << ": " << *small;
}

}  // namespace no_device_test
}  // namespace railyard::fabric
