// Keeps a program's signals with the program's own threads.
#pragma once

#include <pthread.h>

#include <csignal>

namespace railyard {

/// While it exists its thread takes no signals, nor does a thread that is started then, ever: what is sent to
/// the process is for the program's threads, which may hold it back, wait for it, or be interrupted by it.
/// Those of a thread's own faults, and profilers', are left alone.
class SignalsBlocked {
  public:
    SignalsBlocked() noexcept {
        sigset_t all;
        sigfillset(&all);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
            sigdelset(&all, own);
        pthread_sigmask(SIG_BLOCK, &all, &usual_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &usual_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

    /// What the thread had blocked before.
    [[nodiscard]] const sigset_t& usual() const noexcept { return usual_; }

  private:
    sigset_t usual_{};
};

}  // namespace railyard
