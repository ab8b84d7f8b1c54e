/* Railyard's flow API: grains, the numbered buffers of a ring, from one initiator to any number of targets.
 *
 * A target registers the regions that grains arrive in, one region a grain index, and hands out a target
 * info. An initiator registers regions of its own in the same order, adds targets by their infos, and
 * transfers grains: grain i goes from its region i into region i of every target. A grain is announced at the
 * target once, when all of it is in place, on unordered fabrics and over several rails, too.
 *
 * C17 and C++. Sizes are in bytes, times in milliseconds, indices count from zero.
 *
 * Threads: different objects may be used by different threads at the same time. One target, one initiator,
 * may be used by several threads, too; calls on it that do not wait take turns. Destroying an object while
 * another thread is in a call on it, and using it afterwards, is undefined, as with free(). fork(): a child
 * must not use what its parent made; every call but the ones that free is refused with RYF_ERR_INVALID_STATE
 * there, and those leave all as it is. pthread_cancel() takes effect after a call that may block (setup and
 * destruction, adding and removing targets, both waits, the lists of interfaces and sources), at the thread's
 * next cancellation point; in any other call it ends the program, so that a thread which may be cancelled
 * disables that around them. Errors: every function returns a ryf_status. ryf_last_error() says in
 * words what the last failing call of this thread met, and what can be done; NOT_READY, TIMEOUT and
 * INTERRUPTED are no failures in this sense. No C++ exception leaves the library. After a failing call
 * nothing has been changed, unless its description says otherwise.
 */
#ifndef RAILYARD_FLOW_H
#define RAILYARD_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In C++, too, any value may stand in an enumeration, and be refused. */
#ifdef __cplusplus
#define RYF_ENUM : unsigned int
#else
#define RYF_ENUM
#endif

#if defined(__GNUC__)
#define RYF_API __attribute__((visibility("default")))
#else
#define RYF_API
#endif

/** Of this header. Functions are added, and fields in the place of reserved ones: a program goes on with
 * every later library of its soname. */
#define RYF_VERSION_MAJOR 0
#define RYF_VERSION_MINOR 1
#define RYF_VERSION_PATCH 0
#define RYF_VERSION (RYF_VERSION_MAJOR * 1000000u + RYF_VERSION_MINOR * 1000u + RYF_VERSION_PATCH)

/** What a call came to. Numbers never change; later versions may add some. */
typedef enum ryf_status RYF_ENUM {
    RYF_OK = 0,
    RYF_ERR_NOT_READY = 1,     /**< nothing yet, or something is left: call again */
    RYF_ERR_TIMEOUT = 2,       /**< the time given has passed */
    RYF_ERR_INVALID_ARG = 3,   /**< an argument, or what it points to, is not usable */
    RYF_ERR_INVALID_STATE = 4, /**< not before setup, or not twice, or not in a forked child */
    RYF_ERR_NOT_FOUND = 5,     /**< no such thing has been added */
    RYF_ERR_EXISTS = 6,        /**< it has been added already */
    RYF_ERR_INTERRUPTED = 7,   /**< a signal was handled while the call slept; nothing is lost, call again */
    RYF_ERR_NO_FABRIC = 8,     /**< no usable device of that provider */
    RYF_ERR_DISCONNECTED = 9,  /**< the other side is gone, or has never answered */
    RYF_ERR_UNSUPPORTED = 10,  /**< this library, provider or memory cannot do that */
    RYF_ERR_INTERNAL = 11      /**< anything else: the provider failed, or memory ran out */
} ryf_status;

/** Kinds of fabric. */
typedef enum ryf_provider RYF_ENUM {
    RYF_PROVIDER_ANY = 0, /**< the best that is there: efa, cxi, verbs, tcp, shm, in this order */
    RYF_PROVIDER_TCP = 1,
    RYF_PROVIDER_VERBS = 2,
    RYF_PROVIDER_EFA = 3,
    RYF_PROVIDER_SHM = 4 /**< processes of one host */
} ryf_provider;

/** How endpoints meet. */
typedef enum ryf_endpoint RYF_ENUM {
    RYF_ENDPOINT_DEFAULT = 0, /**< what the provider does best */
    RYF_ENDPOINT_RDM = 1,     /**< reliable datagrams: one endpoint for all peers (FI_EP_RDM) */
    RYF_ENDPOINT_MSG = 2      /**< a connection a peer (FI_EP_MSG): tcp, verbs */
} ryf_endpoint;

typedef enum ryf_memory RYF_ENUM {
    RYF_MEMORY_HOST = 0,
    RYF_MEMORY_CUDA = 1 /**< whole inside one allocation of cudaMalloc or cuMemAlloc */
} ryf_memory;

/** What a device can do; bits of ryf_interface.caps. */
enum {
    RYF_CAP_RDM = 1u << 0,               /**< RYF_ENDPOINT_RDM */
    RYF_CAP_MSG = 1u << 1,               /**< RYF_ENDPOINT_MSG */
    RYF_CAP_GPU_MEMORY = 1u << 2,        /**< reads and writes GPU memory itself; else it is staged */
    RYF_CAP_VIRTUAL_ADDRESSES = 1u << 3, /**< remote addresses are pointers (FI_MR_VIRT_ADDR); else offsets */
    RYF_CAP_IMMEDIATE = 1u << 4 /**< writes carry immediate data; else grains are announced by messages, as
                                   with RYF_ENDPOINT_MSG over verbs in any case */
};

typedef struct ryf_instance ryf_instance;
typedef struct ryf_regions ryf_regions;
typedef struct ryf_target ryf_target;
typedef struct ryf_initiator ryf_initiator;
typedef struct ryf_target_info ryf_target_info;

/** A device that flows can use. */
typedef struct ryf_interface {
    ryf_provider provider;
    char name[64];     /**< device or network interface, for the `interface` of the configurations */
    char fabric[32];   /**< libfabric's name of the provider */
    uint32_t caps;     /**< RYF_CAP_ bits */
    uint32_t reserved; /**< 0 */
    double gbit_per_s; /**< speed of the link; 0: unknown */
} ryf_interface;

/** Memory of one grain. It must stay valid while it is set up. */
typedef struct ryf_region {
    void* address;
    uint64_t length; /**< more than 0 */
    ryf_memory memory;
    uint32_t device; /**< of RYF_MEMORY_CUDA: the GPU's CUDA ordinal */
} ryf_region;

/** How a target or an initiator is set up. Zeroed, it means the defaults, but for `regions`. */
typedef struct ryf_config {
    ryf_provider provider;
    ryf_endpoint endpoint;
    /** Devices, by ryf_interface.name, with commas between; NULL: all (tcp: the one of the default route). */
    const char* interface;
    /** Upper limit for the number of rails; 0: every device. */
    uint32_t rails;
    /** Endpoints on each device; 0: one. */
    uint32_t rails_per_device;
    /** One a grain index, at most 16384, all of one length. Copied; the memory is not. */
    const ryf_regions* regions;
    /** Of a target: equal parts (but the last) that a grain may be sent in; 0: one. At most 4096, and times
     * the regions, with both rounded up to powers of two, at most 2^20. */
    uint32_t slices;
    uint64_t reserved[4]; /**< 0: what later versions mean by it, this one would leave out */
} ryf_config;

/** A grain that has arrived. */
typedef struct ryf_grain {
    uint32_t index; /**< region that it is in */
    uint32_t
        source;     /**< who sent it: ryf_source.id; a grain that waits keeps it when the id is given again */
    uint64_t round; /**< how many times `source` has begun to send this index since it added the target, this
                       one  included: from 1 on */
} ryf_grain;

/** What a target knows of one initiator. */
typedef struct ryf_source {
    uint32_t id;     /**< 0 to 15; given again, when all have been, to who comes after the first that left */
    bool connected;  /**< false: it has taken its leave, or is gone */
    char name[64];   /**< its name, unique */
    uint64_t grains; /**< announced */
    uint64_t lost;   /**< begun by the source, and not all of it came before its next round */
    uint64_t overwritten; /**< announced, and replaced by their next round before the target asked for them */
    uint64_t reserved[4]; /**< 0 */
} ryf_source;

/** How it stands with a target. */
typedef enum ryf_target_state RYF_ENUM {
    RYF_TARGET_CONNECTING = 0, /**< it has not answered */
    RYF_TARGET_CONNECTED = 1,
    RYF_TARGET_GONE = 2 /**< it has been removed, as RYF_ERR_DISCONNECTED says, for the reason in `error` */
} ryf_target_state;

/** What an initiator knows of one target. Counted since it was added. */
typedef struct ryf_target_report {
    char id[64]; /**< that of its target info, ryf_target_info_id; cut off where it is longer */
    ryf_target_state state;
    uint32_t under_way; /**< transfers of grains, or of slices: where it stays and `bytes` does not grow, the
                           target does not get on, and holds up the others once the ring has gone round */
    uint64_t grains;    /**< whole ones that have got there */
    uint64_t bytes;     /**< that have got there */
    uint64_t failed;    /**< transfers of grains, or of slices */
    uint64_t left_out;  /**< grains that began while it was not waited for: ryf_initiator_add_target */
    char error[256];    /**< what failed last, or why it is gone, cut off; "" where nothing has */
    uint64_t reserved[4]; /**< 0 */
} ryf_target_report;

/* Instance */

/** An instance, which everything else belongs to. Opens nothing yet.
 * Errors: INVALID_ARG (NULL), INTERNAL. Does not block. */
RYF_API ryf_status ryf_instance_create(ryf_instance** instance);

/** Destroy everything that was made with it first. NULL is fine. Does not block. */
RYF_API ryf_status ryf_instance_destroy(ryf_instance* instance);

/** The devices of `provider` (RYF_PROVIDER_ANY: of all). `*count` goes in as the room in `interfaces` and
 * comes out as the number there are; with `interfaces` NULL nothing else is done. Errors: INVALID_ARG (NULL,
 * an unknown provider; with too little room, which is filled), NO_FABRIC (none: 0 in
 * `*count`), INTERNAL. Blocks while libfabric looks at the machine: tens of milliseconds. */
RYF_API ryf_status ryf_instance_interfaces(ryf_instance* instance, ryf_provider provider,
                                           ryf_interface* interfaces, size_t* count);

/* Regions */

/** A list of regions, in the order of grain indices. Nothing is registered yet.
 * Errors: INVALID_ARG (NULL, none, more than 16384, an empty region, one that wraps around, different
 * lengths). */
RYF_API ryf_status ryf_regions_create(const ryf_region* regions, size_t count, ryf_regions** list);

/** What was set up with it goes on. NULL is fine. */
RYF_API ryf_status ryf_regions_destroy(ryf_regions* list);

/* Target */

/** A target that is not set up. Errors: INVALID_ARG, INTERNAL. */
RYF_API ryf_status ryf_target_create(ryf_instance* instance, ryf_target** target);

/** Opens the rails, registers the regions for peers to write to, and gives what initiators need to know,
 * which the caller frees with ryf_target_info_free. Once a target. Initiators all write to the same regions:
 * where there are several, it is theirs to share the indices out. Errors: INVALID_ARG (the configuration),
 * INVALID_STATE (set up already), NO_FABRIC (no usable device, or none of `interface`), UNSUPPORTED (endpoint
 * kind, GPU memory), INTERNAL (registration refused, for one). Blocks while devices are opened and memory is
 * pinned. */
RYF_API ryf_status ryf_target_setup(ryf_target* target, const ryf_config* config, ryf_target_info** info);

/** The next grain that is all there, in the order in which they became so; each once.
 * Errors: NOT_READY (none yet), INVALID_ARG, INVALID_STATE (not set up), INTERNAL. Never blocks. */
RYF_API ryf_status ryf_target_try_new_grain(ryf_target* target, ryf_grain* grain);

/** The same, and waits up to `timeout_ms` for one; 0 does not wait.
 * Errors: TIMEOUT, INTERRUPTED (a signal was handled; no grain is lost), INVALID_ARG, INVALID_STATE,
 * INTERNAL. */
RYF_API ryf_status ryf_target_wait_for_new_grain(ryf_target* target, ryf_grain* grain, uint32_t timeout_ms);

/** A descriptor to poll for POLLIN, or to add to an epoll set: readable while grains wait, and now and then
 * where none does. ryf_target_try_new_grain makes it unreadable when it answers NOT_READY, and nothing else
 * does; once grains are taken by a wait it may be readable a time too often. The same one each time; it is
 * the target's: do not read or close it, and take it out of your set before ryf_target_destroy. Who never
 * asks for it pays nothing. Errors: INVALID_ARG (NULL), INVALID_STATE (not set up), INTERNAL (out of
 * descriptors). Does not block. */
RYF_API ryf_status ryf_target_fd(ryf_target* target, int* fd);

/** Everybody who has been a source, with counters, as long as nobody else was given the id. The two-call way
 * of ryf_instance_interfaces. Errors: INVALID_ARG (NULL, too little room), INVALID_STATE, INTERNAL. Does not
 * block. */
RYF_API ryf_status ryf_target_sources(ryf_target* target, ryf_source* sources, size_t* count);

/** Tells its sources, and closes all; the regions are the caller's again. NULL is fine. Waits at most some
 * two seconds for peers to take the message. */
RYF_API ryf_status ryf_target_destroy(ryf_target* target);

/* Initiator */

/** An initiator that is not set up. Errors: INVALID_ARG, INTERNAL. */
RYF_API ryf_status ryf_initiator_create(ryf_instance* instance, ryf_initiator** initiator);

/** Opens the rails and registers the regions that grains are sent from (read-only memory is fine). Once an
 * initiator. `config->slices` is not looked at: targets say. Errors and blocking as ryf_target_setup. */
RYF_API ryf_status ryf_initiator_setup(ryf_initiator* initiator, const ryf_config* config);

/** Adds a target, and begins to connect: grains that are transferred meanwhile follow its answer, which
 * ryf_initiator_make_progress takes in. It sees none that were transferred before. Where another target has
 * answered, and this one has not within a tenth of `connect_timeout_ms`, it is left out of what has waited
 * for it, and of what is transferred until it has answered: docs/flow.md, "Who is who". Errors: EXISTS,
 * INVALID_ARG (other number or length of regions, another provider), INVALID_STATE (not set up), INTERNAL.
 * Does not wait for the target. */
RYF_API ryf_status ryf_initiator_add_target(ryf_initiator* initiator, const ryf_target_info* info);

/** Takes it away, with what is on its way to it: waits up to a quarter of a second for that to end
 * (RYF_PROVIDER_EFA without efa-direct: up to 1.1 s), or for its answer where it has not connected yet. Other
 * threads go on meanwhile; those grains are on their way until it returns. Errors: NOT_FOUND, INVALID_ARG,
 * INVALID_STATE. */
RYF_API ryf_status ryf_initiator_remove_target(ryf_initiator* initiator, const ryf_target_info* info);

/** Every target, in the order in which they were added, and behind them those that are gone and have not been
 * added again, the latest 64. The two-call way of ryf_instance_interfaces. Errors: INVALID_ARG (NULL, too
 * little room), INVALID_STATE, INTERNAL. Does not block, and makes no progress. */
RYF_API ryf_status ryf_initiator_targets(ryf_initiator* initiator, ryf_target_report* targets, size_t* count);

/** Begins to send grain `index` to every target, to each once. The region must not change before
 * ryf_initiator_make_progress says that nothing is left, or ryf_initiator_grain_ready that nothing is of it.
 * Errors: NOT_READY (this grain is still on its way to some target; nothing has been begun, and what is on
 * its way has been driven on, so calling again is enough), INVALID_ARG (index), INVALID_STATE, NOT_FOUND (no
 * targets). Does not block, but where it removes a target, as ryf_initiator_make_progress does. */
RYF_API ryf_status ryf_initiator_transfer_grain(ryf_initiator* initiator, uint32_t index);

/** The same for slices `first` to `last`, both included. The grain is announced when every slice has been
 * sent; one that has been sent already begins the next round of the grain, and a target that has been added
 * in the middle of a round sees the next one first. Errors: as
 * ryf_initiator_transfer_grain, but NOT_READY is for these slices, and for a next round while anything of the
 * grain is on its way; INVALID_ARG also for slices that a target does not have. */
RYF_API ryf_status ryf_initiator_transfer_slices(ryf_initiator* initiator, uint32_t index, uint32_t first,
                                                 uint32_t last);

/** OK: nothing of the grain is on its way, and its region may change. Makes progress first.
 * Errors: NOT_READY, INVALID_ARG (index), INVALID_STATE. Does not block, but where it removes a target, as
 * ryf_initiator_make_progress does; what else there is to tell that tells. */
RYF_API ryf_status ryf_initiator_grain_ready(ryf_initiator* initiator, uint32_t index);

/** Looks after what is on its way. OK: nothing is left.
 * Errors: NOT_READY (something is left, or a target has not answered and was not left out), DISCONNECTED (a
 * target was destroyed, is gone, or has not answered in time, and has been removed: ryf_last_error names it;
 * the others go on; call again), INTERNAL (a grain could not be sent to a target, which keeps being one; a
 * call for each), INVALID_STATE. Does not block, but where it removes a target: it waits for what is on its
 * way there to end, up to a quarter of a second where the provider cannot interrupt it (shm, cxi), up to
 * 1.1 s over EFA's fabric efa (a libfabric without efa-direct), and other threads go on. A target that was
 * only stopped, or cut off, is told of its removal when it answers again. */
RYF_API ryf_status ryf_initiator_make_progress(ryf_initiator* initiator);

/** The same, until nothing is left, for at most `timeout_ms`.
 * Errors: TIMEOUT (something is left), INTERRUPTED, and those of ryf_initiator_make_progress but NOT_READY.
 */
RYF_API ryf_status ryf_initiator_make_progress_blocking(ryf_initiator* initiator, uint32_t timeout_ms);

/** Ends what is on its way, takes leave of the targets and closes all; the regions are the caller's again.
 * NULL is fine. Waits at most some two seconds. */
RYF_API ryf_status ryf_initiator_destroy(ryf_initiator* initiator);

/* Target info */

/** As JSON text. `*size` goes in as the room in `text` and comes out as what is needed, the final NUL
 * included; with `text` NULL nothing else is done. Errors: INVALID_ARG (NULL, too little room: nothing is
 * written). */
RYF_API ryf_status ryf_target_info_to_string(const ryf_target_info* info, char* text, size_t* size);

/** Its target's name, which is unique. As ryf_target_info_to_string. */
RYF_API ryf_status ryf_target_info_id(const ryf_target_info* info, char* text, size_t* size);

/** From such text, which may come from anywhere; the caller frees it with ryf_target_info_free.
 * Errors: INVALID_ARG (not whole, contradicts itself, or of a newer version, which ryf_last_error names). */
RYF_API ryf_status ryf_target_info_from_string(const char* text, ryf_target_info** info);

/** NULL is fine. */
RYF_API ryf_status ryf_target_info_free(ryf_target_info* info);

/* Words */

/** RYF_VERSION of the library that is loaded, of the stub, too. Any thread. */
RYF_API uint32_t ryf_version(void);

/** Its name, as "RYF_ERR_TIMEOUT"; never NULL. Any thread. */
RYF_API const char* ryf_status_to_string(ryf_status status);

/** What the last failing call of this thread met; "" where none has failed. Valid until the next call. */
RYF_API const char* ryf_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
