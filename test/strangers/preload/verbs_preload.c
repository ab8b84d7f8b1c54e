// Shows RDMA devices that are not there to one library of a process, and to no other.
//
// Some programs look for EFA devices through libibverbs and sysfs before they open them through libfabric.
// Preloaded, this object answers those questions, from a directory laid out like /sys/devices
// (RAILYARD_VERBS_DEVICES):
//
//     0000:10:1b.0/infiniband/rdmap16s27/     one PCI function and its device
//     0000:10:1b.0/numa_node                  optional, read by the program itself
//
// Only the library whose path ends in RAILYARD_VERBS_FOR (`/mooncake/engine.so`, say) gets these answers:
// calls from anywhere else go to the real functions. libfabric's own efa provider lists devices by the same
// calls and would drive the hardware behind them. Device N is `uverbsN`; a program that looks for
// /dev/infiniband/uverbsN needs a node there, of whatever kind it checks. The functions are those that the
// program calls to find devices. There is no queue pair, no memory region behind them.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The header has inline functions of these names in front of what the library exports.
#undef ibv_get_device_list
#undef ibv_query_port

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))real(#name))
#define IS_FOR_US() (is_ours(__builtin_return_address(0)))

enum { max_devices = 64 };

static struct ibv_device devices[max_devices];
static char* functions[max_devices];  // PCI function of each device, as a directory
static int device_count;
static pthread_once_t scanned = PTHREAD_ONCE_INIT;

static void add_device(const char* root, const char* function, const char* name) {
    const size_t length = strlen(name);
    if (device_count == max_devices || length >= sizeof(devices->name) ||
        asprintf(&functions[device_count], "%s/%s", root, function) < 0)
        return;
    struct ibv_device* device = &devices[device_count];
    device->node_type = IBV_NODE_UNSPECIFIED;
    device->transport_type = IBV_TRANSPORT_UNSPECIFIED;
    memcpy(device->name, name, length + 1);
    snprintf(device->dev_name, sizeof(device->dev_name), "uverbs%d", device_count);
    ++device_count;
}

static void scan(void) {
    const char* root = getenv("RAILYARD_VERBS_DEVICES");
    struct dirent** entries = NULL;
    const int count = root ? scandir(root, &entries, NULL, alphasort) : 0;
    for (int i = 0; i < count; ++i) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/%s/infiniband", root, entries[i]->d_name);
        DIR* names = entries[i]->d_name[0] == '.' ? NULL : opendir(path);
        for (struct dirent* name; names && (name = readdir(names));)
            if (name->d_name[0] != '.') add_device(root, entries[i]->d_name, name->d_name);
        if (names) closedir(names);
        free(entries[i]);
    }
    free(entries);
}

// Whether the code at `address` belongs to the library that is to see the devices.
static int is_ours(void* address) {
    const char* wanted = getenv("RAILYARD_VERBS_FOR");
    Dl_info found;
    if (!wanted || !dladdr(address, &found) || !found.dli_fname) return 0;
    const size_t length = strlen(found.dli_fname), tail = strlen(wanted);
    if (tail > length || strcmp(found.dli_fname + length - tail, wanted) != 0) return 0;
    pthread_once(&scanned, scan);
    return 1;
}

// The function that this one stands in front of. libibverbs may have come in by dlopen, where RTLD_NEXT does
// not look.
static void* real(const char* name) {
    void* verbs = strncmp(name, "ibv_", 4) == 0 ? dlopen("libibverbs.so.1", RTLD_LAZY) : RTLD_NEXT;
    void* found = dlsym(verbs, name);
    if (!found) abort();  // whoever calls an ibv_ function has loaded the library
    return found;
}

EXPORT struct ibv_device** ibv_get_device_list(int* count) {
    if (!IS_FOR_US()) return REAL(ibv_get_device_list)(count);
    struct ibv_device** list = calloc((size_t)device_count + 1, sizeof(*list));
    for (int i = 0; list && i < device_count; ++i)
        list[i] = &devices[i];
    if (count) *count = list ? device_count : 0;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device** list) {
    if (IS_FOR_US())
        free(list);
    else
        REAL(ibv_free_device_list)(list);
}

EXPORT const char* ibv_get_device_name(struct ibv_device* device) {
    return IS_FOR_US() ? device->name : REAL(ibv_get_device_name)(device);
}

EXPORT struct ibv_context* ibv_open_device(struct ibv_device* device) {
    if (!IS_FOR_US()) return REAL(ibv_open_device)(device);
    struct ibv_context* context = calloc(1, sizeof(*context));
    if (context) {
        context->device = device;
        context->cmd_fd = context->async_fd = -1;
        context->num_comp_vectors = 1;
    }
    return context;
}

EXPORT int ibv_close_device(struct ibv_context* context) {
    if (!IS_FOR_US()) return REAL(ibv_close_device)(context);
    free(context);
    return 0;
}

// Limits of an EFA device of the second generation.
EXPORT int ibv_query_device(struct ibv_context* context, struct ibv_device_attr* attr) {
    if (!IS_FOR_US()) return REAL(ibv_query_device)(context, attr);
    memset(attr, 0, sizeof(*attr));
    attr->vendor_id = 0x1d0f;
    attr->vendor_part_id = 0xefa1;
    attr->max_mr_size = 1ULL << 44;
    attr->page_size_cap = 0xfffff000;
    attr->max_qp = attr->max_cq = 256;
    attr->max_qp_wr = 4096;
    attr->max_sge = attr->max_sge_rd = 2;
    attr->max_cqe = 32768;
    attr->max_mr = 1 << 18;
    attr->max_pd = 256;
    attr->max_ah = 4096;
    attr->phys_port_cnt = 1;
    return 0;
}

// The caller hands over the older, shorter attributes: nothing behind phys_state is ours to write.
EXPORT int ibv_query_port(struct ibv_context* context, uint8_t port, struct _compat_ibv_port_attr* compat) {
    if (!IS_FOR_US()) return REAL(ibv_query_port)(context, port, compat);
    struct ibv_port_attr* attr = (struct ibv_port_attr*)compat;
    if (port != 1) return EINVAL;
    attr->state = IBV_PORT_ACTIVE;
    attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
    attr->gid_tbl_len = attr->pkey_tbl_len = 1;
    attr->max_msg_sz = 1U << 30;
    attr->active_width = 2;
    attr->active_speed = 64;
    attr->phys_state = 5;
    return 0;
}

// "/sys/class/infiniband/NAME/../..": where the link leads, the directory of the PCI function. NULL: not such
// a path.
static const char* function_of(const char* path) {
    static const char prefix[] = "/sys/class/infiniband/";
    if (!path || strncmp(path, prefix, sizeof(prefix) - 1) != 0) return NULL;
    const char* name = path + sizeof(prefix) - 1;
    const char* end = strchr(name, '/');
    for (int i = 0; end && strcmp(end, "/../..") == 0 && i < device_count; ++i)
        if (strlen(devices[i].name) == (size_t)(end - name) &&
            strncmp(devices[i].name, name, (size_t)(end - name)) == 0)
            return functions[i];
    return NULL;
}

EXPORT char* realpath(const char* path, char* resolved) {
    const char* function = IS_FOR_US() ? function_of(path) : NULL;
    return REAL(realpath)(function ? function : path, resolved);
}

EXPORT char* __realpath_chk(const char* path, char* resolved, size_t length);
EXPORT char* __realpath_chk(const char* path, char* resolved, size_t length) {
    const char* function = IS_FOR_US() ? function_of(path) : NULL;
    return REAL(__realpath_chk)(function ? function : path, resolved, length);
}
