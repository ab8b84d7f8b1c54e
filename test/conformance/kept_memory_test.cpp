// Memory that the kernel keeps from other processes, or has no pages for, between peers on one host.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "engine/transfer.h"
#include "engine_pair.h"

namespace railyard::test {
namespace {

/// Of memfd_secret, filled with `fill`; nullptr where the kernel has none. Gone with the object.
class SecretMemory {
  public:
    SecretMemory(std::size_t size, char fill) : size_(size) {
        const auto fd = static_cast<int>(syscall(SYS_memfd_secret, 0));
        if (fd < 0) return;
        void* const mapped = ftruncate(fd, static_cast<off_t>(size)) == 0
                                 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                 : MAP_FAILED;
        close(fd);
        if (mapped == MAP_FAILED) return;
        memory = static_cast<char*>(mapped);
        std::memset(memory, fill, size);
    }
    ~SecretMemory() {
        if (memory) munmap(memory, size_);
    }
    SecretMemory(const SecretMemory&) = delete;
    SecretMemory& operator=(const SecretMemory&) = delete;

    char* memory = nullptr;

  private:
    const std::size_t size_;
};

class KeptMemory : public testing::TestWithParam<Fabric> {};

/// It takes a call of the kernel, and a look at the mappings of both processes, to find out.
TEST_P(KeptMemory, GoesOverTheFabricAndIsTriedOnceATransfer) {
    constexpr std::size_t size = 512 << 10;
    const SecretMemory secret(size, '.');
    if (!secret.memory) GTEST_SKIP() << "the kernel has no memfd_secret: " << std::strerror(errno);
    EnginePair pair(GetParam());
    const auto address = reinterpret_cast<std::uint64_t>(secret.memory);
    const auto kept = pair.b->register_memory(address, size, 0);
    const auto remote = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*kept), address, size);
    Buffer ours(*pair.a, size, 'x');
    const std::vector<LocalDescriptor> local{ours.local(0, size)};
    const std::vector<RemoteDescriptor> there{{address, size, &remote}};
    std::uint32_t tried = 0;
    for (const Operation operation : {Operation::write, Operation::read}) {
        Transfer* const transfer = pair.a->prepare(operation, local, there, "beta", std::nullopt);
        ASSERT_EQ(transfer->routes.front().rail->name(), "host");
        for (int i = 0; i < 5; ++i) {
            char* const from =
                operation == Operation::write ? reinterpret_cast<char*>(ours.bytes.data()) : secret.memory;
            std::memset(from, 'a' + i, size);
            ASSERT_EQ(pair.run(*transfer), Status::ok);
            EXPECT_EQ(std::memcmp(ours.bytes.data(), secret.memory, size), 0);
        }
        EXPECT_EQ(transfer->routes.front().path->failovers(), ++tried);
        EXPECT_FALSE(transfer->routes.front().has_failed()) << "the peer's other memory is reached";
        pair.a->release(transfer);
    }
    pair.b->deregister_memory(kept);
}

/// As where a file was cut short, or a file system is full. Over tcp it is the target's own thread that
/// touches it, and its process would end.
TEST_P(KeptMemory, WhatHasNoPagesIsRefused) {
    constexpr std::size_t page = 4096, size = 64 * page, length = 16 * page;
    const int file = memfd_create("short", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, size), 0);
    void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EnginePair pair(GetParam());
    const auto address = reinterpret_cast<std::uint64_t>(mapped), middle = address + size / 2;
    const auto cut = pair.b->register_memory(address, size, 0);
    const auto remote = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*cut), address, size);
    Buffer ours(*pair.a, size, 'x');
    ASSERT_EQ(ftruncate(file, 2 * page), 0);
    const auto run = [&](Operation operation, std::uint64_t to, std::size_t bytes) {
        const LocalDescriptor local = ours.local(0, bytes);
        const RemoteDescriptor there{to, bytes, &remote};
        Transfer* const transfer = pair.a->prepare(operation, {&local, 1}, {&there, 1}, "beta", std::nullopt);
        const Status status = pair.run(*transfer);
        EXPECT_EQ(transfer->routes.front().path->failovers(), 0u);
        pair.a->release(transfer);
        return status;
    };
    for (const Operation operation : {Operation::write, Operation::read}) {
        EXPECT_EQ(run(operation, middle, length), Status::backend);
        EXPECT_EQ(run(operation, address + page, length), Status::backend) << "part of it is there";
        EXPECT_EQ(run(operation, address, 2 * page), Status::ok) << "that is there";
    }
    pair.b->deregister_memory(cut);
    munmap(mapped, size);
    close(file);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, KeptMemory,
                         testing::Values(Fabric{"tcp", 1, false, true}, Fabric{"tcp", 4, false, true},
                                         Fabric{"tcp", 2, true, true}),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
