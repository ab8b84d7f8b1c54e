// The engines of one run, on simulated NICs of their own, and the handles of its transfers.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control.h"
#include "oracle.h"

namespace railyard::fault {

/// What the environment of the process says has to fit the schedule: HWLOC_XMLFILE, FI_PROVIDER_PATH,
/// SIMEFA_SEED and a SIMEFA_NAMESPACE of its own. Engines may be used from any thread; destroy, create and
/// the like only while no other thread uses the world.
class World {
  public:
    /// Throws railyard::Error where engines cannot be made.
    World(const Schedule& schedule, Oracle& oracle);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    /// nullptr: destroyed.
    [[nodiscard]] Engine* engine(int index) { return nodes_[static_cast<std::size_t>(index)].engine.get(); }
    /// One pass over all engines, and their notifications to the oracle.
    void drive();

    /// A handle, made with what both sides have registered now; nullptr where one of them has not, or is
    /// unknown to the other. What the engine throws, if the oracle takes it, is nullptr, too.
    Transfer* prepare(const TransferSpec& spec);
    void notify(int from, int to, int id, int length);

    void fault(int engine, int rail, const std::string& settings);
    void calm(int engine, int rail);
    void calm_all();
    void destroy(int index);
    void create(int index);
    void disconnect(int index, int from);
    void connect(int index, int to);
    void deregister(int index, int slot);
    void enlist(int index, int slot);

  private:
    struct Node {
        std::vector<std::string> nics;
        std::unique_ptr<Engine> engine;
    };
    [[nodiscard]] Node& node(int index) { return nodes_[static_cast<std::size_t>(index)]; }
    [[nodiscard]] bool knows(int index, int other) { return engine(index) && engine(other); }
    void make_engine(int index);
    void introduce(int index, int to);
    std::shared_ptr<RemoteRegion> remote(const TransferSpec& spec);

    const Schedule& schedule_;
    Oracle& oracle_;
    std::mutex nics_;  // what they are set to and what the oracle knows of it change together
    simefa::Control control_;
    std::vector<Node> nodes_;
};

}  // namespace railyard::fault
