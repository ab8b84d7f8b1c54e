#include "engine/engine.h"

#include "engine/engine_impl.h"

namespace railyard {

Engine::Engine(EngineConfig config)
    : generation_((watch_forks(), fork_generation())), impl_(std::make_unique<Impl>(std::move(config))) {}

Engine::~Engine() {
    // A child has no progress thread, and locks as they were at the fork; closing rails would take the
    // parent's addresses and connections away.
    if (!own_process()) leave_to_parent(impl_.release());
}

void Engine::require_own_process() const {
    if (own_process()) return;
    throw Error(Status::not_allowed, "the engine of agent \"" + impl_->agent() +
                                         "\" belongs to the process that made it: a forked child must not "
                                         "use it; create another engine there, or call exec");
}

const std::string& Engine::agent_name() const noexcept {
    return impl_->agent();
}
std::size_t Engine::rail_count() const noexcept {
    return impl_->rails().size();
}
std::vector<RailCounters> Engine::rail_counters() const {
    require_own_process();
    std::vector<RailCounters> counters;
    for (std::size_t i = 0; i < rail_count(); ++i)
        counters.push_back(impl_->rails().rail(i).counters());
    return counters;
}
const std::string& Engine::provider() const noexcept {
    return impl_->rails().provider();
}

const Params& Engine::params() const noexcept {
    return impl_->params();
}
Gpus& Engine::gpus() noexcept {
    return impl_->gpus();
}

std::shared_ptr<Registration> Engine::register_memory(std::uint64_t address, std::uint64_t length,
                                                      std::uint64_t device_id, MemoryType type) {
    require_own_process();
    return impl_->register_memory(address, length, device_id, type);
}
bool Engine::has_gpus() const noexcept {
    return impl_->rails().gpus().any();
}
bool Engine::takes_gpu_memory() const noexcept {
    return impl_->rails().takes_gpu_memory();
}
void Engine::deregister_memory(const std::shared_ptr<Registration>& region) {
    require_own_process();
    impl_->deregister_memory(region);
}
std::string Engine::memory_metadata(const Registration& region) const {
    require_own_process();
    return impl_->memory_metadata(region);
}
std::shared_ptr<RemoteRegion> Engine::load_remote_memory(const std::string& agent, std::string_view metadata,
                                                         std::uint64_t address, std::uint64_t length) {
    require_own_process();
    return impl_->load_remote_memory(agent, metadata, address, length);
}
std::shared_ptr<RemoteRegion> Engine::local_as_remote(const std::shared_ptr<Registration>& region) {
    require_own_process();
    return impl_->local_as_remote(region);
}

std::string Engine::connection_info() const {
    require_own_process();
    return impl_->connection_info();
}
void Engine::load_connection_info(const std::string& agent, std::string_view info) {
    require_own_process();
    impl_->load_connection_info(agent, info);
}
void Engine::connect(const std::string& agent) {
    require_own_process();
    impl_->connect(agent);
}
void Engine::disconnect(const std::string& agent) {
    require_own_process();
    impl_->disconnect(agent);
}

std::vector<PeerReport> Engine::peers() const {
    require_own_process();
    return impl_->peers();
}

Transfer* Engine::prepare(Operation operation, std::span<const LocalDescriptor> local,
                          std::span<const RemoteDescriptor> remote, const std::string& agent,
                          std::optional<std::string_view> notification) {
    require_own_process();
    return impl_->prepare(operation, local, remote, agent, notification);
}
Status Engine::post(Transfer& transfer, const std::string* notification) noexcept {
    if (!own_process()) return Status::not_allowed;
    return impl_->post(transfer, notification);
}
Status Engine::post_without_notification(Transfer& transfer) noexcept {
    if (!own_process()) return Status::not_allowed;
    return impl_->post(transfer, nullptr, false);
}
Status Engine::poll(Transfer& transfer) noexcept {
    if (!own_process()) return Status::not_allowed;
    return impl_->poll(transfer);
}
Status Engine::look(Transfer& transfer) noexcept {
    if (!own_process()) return Status::not_allowed;
    return impl_->look(transfer);
}
void Engine::release(Transfer* transfer) noexcept {
    release(std::span(&transfer, 1));
}
void Engine::release(std::span<Transfer* const> transfers) noexcept {
    if (!own_process()) return;
    impl_->release(transfers);
}
CostEstimate Engine::estimate(const Transfer& transfer) const noexcept {
    if (!own_process()) return {};
    return impl_->estimate(transfer);
}
bool Engine::carry_immediates(Transfer& transfer, std::size_t descriptors, std::uint32_t first) noexcept {
    if (!own_process()) return false;
    return impl_->carry_immediates(transfer, descriptors, first);
}
void Engine::hear_immediates(fabric::ImmediateSink& sink) noexcept {
    impl_->hear_immediates(sink);
}
bool Engine::peer_is_gone(const Transfer& transfer) const noexcept {
    return transfer.peer && transfer.peer->state() == PeerState::gone;
}
void Engine::control_start(Transfer& transfer, StartControl& control) noexcept {
    transfer.start_control = &control;
}
void Engine::start(Transfer& transfer) noexcept {
    if (!own_process()) return;
    impl_->start(transfer);
}
void Engine::set_chore(EngineChore* chore, ChoreTime time) noexcept {
    if (!own_process()) return;
    impl_->set_chore(chore, time);
}

void Engine::set_chore_time(ChoreTime time) noexcept {
    impl_->set_chore_time(time);
}

void Engine::take_notifications(std::vector<Notification>& out) {
    require_own_process();
    impl_->take_notifications(out);
}
bool Engine::look_for_notifications() {
    require_own_process();
    return impl_->look_for_notifications();
}
bool Engine::has_notifications() const noexcept {
    return own_process() && impl_->has_notifications();
}
void Engine::send_notification(const std::string& agent, std::string_view message) {
    require_own_process();
    impl_->send_notification(agent, message);
}
bool Engine::progress() noexcept {
    if (!own_process()) return false;
    return impl_->make_pass();
}
void Engine::catch_up(std::uint64_t limit_ns) noexcept {
    if (own_process()) impl_->catch_up(limit_ns);
}
bool Engine::progress_rails() noexcept {
    if (!own_process()) return false;
    return impl_->make_rails_pass();
}
bool Engine::progress_rest() noexcept {
    return own_process() && impl_->progress_rest();
}

}  // namespace railyard
