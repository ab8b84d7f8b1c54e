// SIMEFA_THREADED=1: a thread that drives the NICs of this process, whether the application polls or not.
#pragma once

namespace simefa {

class Domain;

/// One thread per process, started with the first domain and ended with the last. Without SIMEFA_THREADED
/// nothing happens. `remove` returns when the thread does not use the domain any more.
class DriverThread {
  public:
    static void add(Domain& domain);
    static void remove(Domain& domain) noexcept;
};

}  // namespace simefa
