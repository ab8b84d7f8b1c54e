// How loops wait that drive something until it has happened: without keeping a core from the tests beside
// them.
#pragma once

#include <chrono>
#include <thread>

namespace railyard::test {

/// One thread. For one wait.
class Patience {
  public:
    /// At each turn in which there was nothing yet. What the loop itself carries on is over in the first
    /// ones, each of which would cost a time slice beside who computes. Then others that can run do so first;
    /// once it has taken many turns, which is a wait for time to pass or for another process, it also sleeps
    /// for some 0.1 ms.
    void turn() {
        if (++turns_ < own_turns) return;
        if (turns_ < eager_turns) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }

  private:
    static constexpr int own_turns = 100, eager_turns = 4000;
    int turns_ = 0;
};

}  // namespace railyard::test
