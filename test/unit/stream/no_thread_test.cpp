// Where the process can have no more threads, whoever makes progress looks after streams.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>

#include "stream_pair.h"

namespace railyard::test {
namespace {

std::atomic<bool> no_more_threads{false};

class StreamsWithoutAThread : public OnStreams {};

TEST_P(StreamsWithoutAThread, AreLookedAfterByWhoeverMakesProgress) {
    StreamPair side(thread());
    const ProgramStream dead(context()), alive(context());
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    LogLines log;
    no_more_threads = true;
    Transfer* lost = side.prepare(Operation::write, source, target, dead);
    Transfer* other = side.prepare(Operation::write, source, target, alive);
    no_more_threads = false;
    EXPECT_EQ(log.count("no thread to watch CUDA streams"), 1);
    StreamGate gate(dead);
    ASSERT_TRUE(side.pair.until([&] { return gate.reached(); }));
    ASSERT_EQ(side.pair.a->post(*lost), Status::in_progress);
    fake().fail("execute", 1, CUDA_ERROR_LAUNCH_FAILED);
    gate.open();
    EXPECT_EQ(side.pair.wait(*lost), Status::backend);
    EXPECT_EQ(side.pair.run(*other), Status::ok);
    for (Transfer* transfer : {lost, other})
        side.pair.a->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamsWithoutAThread, testing::Bool(), mode_name);

}  // namespace
}  // namespace railyard::test

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*start)(void*), void* argument) {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    if (railyard::test::no_more_threads) return EAGAIN;
    return real(thread, attributes, start, argument);
}
