// A rail to ourselves, and to GPU memory of other processes of this host: copies by the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "common/mutex.h"
#include "cuda/copy_stream.h"
#include "rail/host_peer_rail.h"
#include "rail/pending_list.h"

namespace railyard {

/// Transfers of an engine to itself of which either side, or both, is memory of a GPU, and those to a peer on
/// this host from GPU to GPU, whose memory is mapped here (CUDA IPC). Runs of chunks are copied as one group
/// each, what adjoins as one copy, over several streams, several groups a stream; submissions take turns by
/// group. Host memory that is not pinned is copied correctly, but slowly, and the driver may block meanwhile.
///
/// The routes to peers are those of a HostPeerRail. A copy would succeed whoever is there: words and process
/// are looked at before each group, the process again when it has ended, and the words after reads. The peer
/// has no part in it.
///
/// A copy that fails ends all chunks of its group with Status::backend (the driver's reason is in the log).
/// Of a work that was stopped, chunks that were not started end at once.
class DeviceCopyRail final : public HostPeerRail {
  public:
    static constexpr std::uint64_t longest_chunk = std::uint64_t{256} << 20;
    static constexpr std::uint32_t chunks_per_group = cuda::pieces_per_launch;
    static constexpr unsigned groups_per_stream = 4;

    explicit DeviceCopyRail(std::string name);
    /// Waits for copies under way, up to 2 s; a GPU that takes longer keeps the streams, which is logged.
    /// What is left ends without a word, as with other rails.
    ~DeviceCopyRail() override;

    /// Makes the streams in `context`, once: further calls do nothing. Any thread; before the first
    /// submission. `streams` > 0. Throws Error{backend}, and may be called again then.
    void open(const cuda::ContextPtr& context, unsigned streams,
              const std::shared_ptr<const cuda::CopyKernel>& kernel = nullptr);
    /// A copy is under way whose peer has ended, or may be: somebody is at work here. None starts any more 10
    /// ms after that end (HostProcess::look_now_and_then). Any thread, without a role.
    [[nodiscard]] bool may_copy_for_the_ended() noexcept;
    [[nodiscard]] bool is_open() const noexcept { return opened_.load(std::memory_order_acquire) != nullptr; }

    /// Nothing to register: the driver knows what an address is.
    RegisteredMemory register_memory(const MemoryRange&) override { return {}; }
    [[nodiscard]] bool reaches_gpu_memory() const noexcept override { return true; }
    [[nodiscard]] std::string address() const override { return {}; }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return longest_chunk; }
    /// Copies tell nobody: look while has_work().
    [[nodiscard]] bool needs_polling() const noexcept override { return false; }

  private:
    struct Group;
    struct Stream;
    struct Opened;

    bool serve(bool drain_first) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    PeerAddress do_insert_peer(std::string_view) override { return 0; }
    void do_remove_peer(PeerAddress) noexcept override {}
    bool may_wait() noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return !has_work(); }

    bool copies_for_the_ended() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool drain(Opened& opened) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool start_groups(Opened& opened) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static Stream* stream_with_room(Opened& opened) noexcept;
    bool has_chunks(Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool is_there(Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static bool is_vouched_for(const Route& route, const Chunk& chunk) noexcept;
    void end_group(const Group& group, Status status) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    Status look_again(const Work& work, const Route& route, Run run) noexcept;
    void start_group(Stream& stream, Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);

    Mutex open_mutex_;
    std::unique_ptr<Opened> owner_ ABSL_GUARDED_BY(open_mutex_);
    std::atomic<Opened*> opened_{nullptr};  // release by open(), acquire by everybody
    PendingList<Submission> pending_ ABSL_GUARDED_BY(role_);
    std::uint32_t waiting_ ABSL_GUARDED_BY(role_) = 0;    ///< submissions in pending_
    std::uint32_t under_way_ ABSL_GUARDED_BY(role_) = 0;  ///< groups
};

}  // namespace railyard
