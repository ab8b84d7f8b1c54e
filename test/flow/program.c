/* A flow from plain C: a target and an initiator in one process, 40 grains round a ring of 8.
 * Arguments: PROVIDER INTERFACE ENDPOINT; an INTERFACE of "" or "-" leaves the choice to the library. Exit
 * status 77, with the reason as the last line, where this machine or library lacks what was asked for. */
#define _POSIX_C_SOURCE 200809L

#include <railyard/flow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ring = 8, grain_bytes = 100000, grains = 40, limit_s = 60, skipped = 77 };

static unsigned char sent[ring][grain_bytes];
static unsigned char received[ring][grain_bytes];
static char skip_reason[512];

/* What one side has, so that it can be closed from wherever the run ends. */
struct flow {
    ryf_instance* instance;
    ryf_regions* sources;
    ryf_regions* places;
    ryf_target* target;
    ryf_initiator* initiator;
    ryf_target_info* info;
};

static int good(ryf_status status, const char* call) {
    if (status == RYF_OK) return 1;
    fprintf(stderr, "%s: %s: %s\n", call, ryf_status_to_string(status), ryf_last_error());
    return 0;
}

/* A setup: 0, or the exit status. */
static int set_up(ryf_status status, const char* call) {
    if (status == RYF_ERR_UNSUPPORTED || status == RYF_ERR_NO_FABRIC) {
        snprintf(skip_reason, sizeof(skip_reason), "%s: %s: %s", call, ryf_status_to_string(status),
                 ryf_last_error());
        return skipped;
    }
    return good(status, call) ? 0 : 1;
}

static int choose(const char* text, const char* const* names, int count) {
    for (int i = 0; i < count; ++i) {
        if (strcmp(text, names[i]) == 0) return i;
    }
    return -1;
}

/* Grain `number` at `position`. */
static unsigned char byte_of(unsigned number, unsigned position) {
    return (unsigned char)(number * 37u + position * 7u + (position >> 8) * 11u + 5u);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int make_regions(unsigned char (*memory)[grain_bytes], ryf_regions** list) {
    ryf_region regions[ring];
    memset(regions, 0, sizeof(regions));
    for (int i = 0; i < ring; ++i) {
        regions[i].address = memory[i];
        regions[i].length = grain_bytes;
        regions[i].memory = RYF_MEMORY_HOST;
    }
    return good(ryf_regions_create(regions, ring, list), "ryf_regions_create");
}

/* The info goes the way that it would go between two processes: as text. */
static int add_target(struct flow* flow) {
    size_t size = 0;
    if (!good(ryf_target_info_to_string(flow->info, NULL, &size), "ryf_target_info_to_string")) return 0;
    char* const text = malloc(size);
    if (text == NULL) {
        fprintf(stderr, "malloc failed\n");
        return 0;
    }
    ryf_target_info* parsed = NULL;
    int fine = good(ryf_target_info_to_string(flow->info, text, &size), "ryf_target_info_to_string") &&
               good(ryf_target_info_from_string(text, &parsed), "ryf_target_info_from_string") &&
               good(ryf_initiator_add_target(flow->initiator, parsed), "ryf_initiator_add_target");
    fine = good(ryf_target_info_free(parsed), "ryf_target_info_free") && fine;
    free(text);
    return fine;
}

/* 0, or the exit status. */
static int open_flow(struct flow* flow, ryf_config config) {
    if (!good(ryf_instance_create(&flow->instance), "ryf_instance_create") ||
        !make_regions(sent, &flow->sources) || !make_regions(received, &flow->places) ||
        !good(ryf_target_create(flow->instance, &flow->target), "ryf_target_create") ||
        !good(ryf_initiator_create(flow->instance, &flow->initiator), "ryf_initiator_create")) {
        return 1;
    }
    config.regions = flow->places;
    int status = set_up(ryf_target_setup(flow->target, &config, &flow->info), "ryf_target_setup");
    if (status != 0) return status;
    config.regions = flow->sources;
    status = set_up(ryf_initiator_setup(flow->initiator, &config), "ryf_initiator_setup");
    if (status != 0) return status;
    return add_target(flow) ? 0 : 1;
}

static int close_flow(struct flow* flow) {
    int fine = good(ryf_initiator_destroy(flow->initiator), "ryf_initiator_destroy");
    fine = good(ryf_target_destroy(flow->target), "ryf_target_destroy") && fine;
    fine = good(ryf_target_info_free(flow->info), "ryf_target_info_free") && fine;
    fine = good(ryf_regions_destroy(flow->sources), "ryf_regions_destroy") && fine;
    fine = good(ryf_regions_destroy(flow->places), "ryf_regions_destroy") && fine;
    return good(ryf_instance_destroy(flow->instance), "ryf_instance_destroy") && fine;
}

/* Drives both sides until the grain is here and nothing is left at the initiator. */
static int carry(struct flow* flow, ryf_grain* grain) {
    const double end = seconds_now() + limit_s;
    int here = 0, left = 1;
    while (!here || left) {
        const ryf_status progress = ryf_initiator_make_progress(flow->initiator);
        left = progress != RYF_OK;
        if (left && progress != RYF_ERR_NOT_READY) return good(progress, "ryf_initiator_make_progress");
        if (!here) {
            const ryf_status wait = ryf_target_wait_for_new_grain(flow->target, grain, 5);
            here = wait == RYF_OK;
            if (!here && wait != RYF_ERR_TIMEOUT && wait != RYF_ERR_INTERRUPTED)
                return good(wait, "ryf_target_wait_for_new_grain");
        } else if (left) {
            ryf_grain surplus;
            const ryf_status more = ryf_target_try_new_grain(flow->target, &surplus);
            if (more != RYF_ERR_NOT_READY) {
                fprintf(stderr, "ryf_target_try_new_grain: %s, but one grain was sent and it has come\n",
                        ryf_status_to_string(more));
                return 0;
            }
        }
        if (seconds_now() > end) {
            fprintf(stderr, "no end in %d seconds: the grain is %s, the initiator %s\n", (int)limit_s,
                    here ? "here" : "not here", left ? "has something left" : "has nothing left");
            return 0;
        }
    }
    return 1;
}

static int check_grain(unsigned number, const ryf_grain* grain) {
    const unsigned index = number % ring, round = number / ring + 1;
    if (grain->index != index || grain->round != round) {
        fprintf(stderr, "grain %u came as index %u, round %llu, not as index %u, round %u\n", number,
                (unsigned)grain->index, (unsigned long long)grain->round, index, round);
        return 0;
    }
    for (unsigned i = 0; i < grain_bytes; ++i) {
        if (received[index][i] != byte_of(number, i)) {
            fprintf(stderr, "grain %u: byte %u is %u, not %u\n", number, i, (unsigned)received[index][i],
                    (unsigned)byte_of(number, i));
            return 0;
        }
    }
    return 1;
}

static int send_all(struct flow* flow, uint32_t* source) {
    for (unsigned number = 0; number < grains; ++number) {
        ryf_grain grain;
        memset(&grain, 0, sizeof(grain));
        for (unsigned i = 0; i < grain_bytes; ++i)
            sent[number % ring][i] = byte_of(number, i);
        if (!good(ryf_initiator_transfer_grain(flow->initiator, number % ring),
                  "ryf_initiator_transfer_grain") ||
            !carry(flow, &grain) || !check_grain(number, &grain)) {
            return 0;
        }
        if (number > 0 && grain.source != *source) {
            fprintf(stderr, "grain %u came from source %u, those before from %u\n", number,
                    (unsigned)grain.source, (unsigned)*source);
            return 0;
        }
        *source = grain.source;
    }
    return 1;
}

static int check_source(struct flow* flow, uint32_t id) {
    ryf_source source;
    size_t count = 0;
    if (!good(ryf_target_sources(flow->target, NULL, &count), "ryf_target_sources")) return 0;
    if (count != 1) {
        fprintf(stderr, "ryf_target_sources: %zu sources, not 1\n", count);
        return 0;
    }
    memset(&source, 0, sizeof(source));
    if (!good(ryf_target_sources(flow->target, &source, &count), "ryf_target_sources")) return 0;
    if (source.id == id && source.connected && source.name[0] != '\0' && source.grains == grains &&
        source.lost == 0 && source.overwritten == 0) {
        return 1;
    }
    fprintf(stderr, "source %u \"%s\": %s, %llu grains, %llu lost, %llu overwritten; not %u, %d grains\n",
            (unsigned)source.id, source.name, source.connected ? "connected" : "gone",
            (unsigned long long)source.grains, (unsigned long long)source.lost,
            (unsigned long long)source.overwritten, (unsigned)id, (int)grains);
    return 0;
}

int main(int argc, char** argv) {
    static const char* const providers[] = {"any", "tcp", "verbs", "efa", "shm"};
    static const char* const endpoints[] = {"default", "rdm", "msg"};
    const int provider = argc == 4 ? choose(argv[1], providers, 5) : -1;
    const int endpoint = argc == 4 ? choose(argv[3], endpoints, 3) : -1;
    if (provider < 0 || endpoint < 0) {
        fprintf(stderr, "usage: %s any|tcp|verbs|efa|shm INTERFACE default|rdm|msg\n", argv[0]);
        return 2;
    }
    ryf_config config;
    memset(&config, 0, sizeof(config));
    config.provider = (ryf_provider)provider;
    config.endpoint = (ryf_endpoint)endpoint;
    if (argv[2][0] != '\0' && strcmp(argv[2], "-") != 0) config.interface = argv[2];

    struct flow flow;
    memset(&flow, 0, sizeof(flow));
    uint32_t source = 0;
    int status = open_flow(&flow, config);
    if (status == 0) status = send_all(&flow, &source) && check_source(&flow, source) ? 0 : 1;
    if (!close_flow(&flow) && status != 1) status = 1;
    if (status == 0) printf("%d grains\n", (int)grains);
    if (status == skipped) printf("%s\n", skip_reason);
    return status;
}
