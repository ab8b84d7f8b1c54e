// The flow API without a fabric behind it, for builds that must not need libfabric: every call fails.
#include "railyard/flow.h"

// One line a function: a new one that is missing here is found by the test of the symbols.
#define RYF_STUB(name, ...)        \
    ryf_status name(__VA_ARGS__) { \
        return RYF_ERR_INTERNAL;   \
    }

RYF_STUB(ryf_instance_create, ryf_instance**)
RYF_STUB(ryf_instance_destroy, ryf_instance*)
RYF_STUB(ryf_instance_interfaces, ryf_instance*, ryf_provider, ryf_interface*, size_t*)
RYF_STUB(ryf_regions_create, const ryf_region*, size_t, ryf_regions**)
RYF_STUB(ryf_regions_destroy, ryf_regions*)
RYF_STUB(ryf_target_create, ryf_instance*, ryf_target**)
RYF_STUB(ryf_target_setup, ryf_target*, const ryf_config*, ryf_target_info**)
RYF_STUB(ryf_target_try_new_grain, ryf_target*, ryf_grain*)
RYF_STUB(ryf_target_wait_for_new_grain, ryf_target*, ryf_grain*, uint32_t)
RYF_STUB(ryf_target_sources, ryf_target*, ryf_source*, size_t*)
RYF_STUB(ryf_target_fd, ryf_target*, int*)
RYF_STUB(ryf_target_destroy, ryf_target*)
RYF_STUB(ryf_initiator_create, ryf_instance*, ryf_initiator**)
RYF_STUB(ryf_initiator_setup, ryf_initiator*, const ryf_config*)
RYF_STUB(ryf_initiator_add_target, ryf_initiator*, const ryf_target_info*)
RYF_STUB(ryf_initiator_remove_target, ryf_initiator*, const ryf_target_info*)
RYF_STUB(ryf_initiator_targets, ryf_initiator*, ryf_target_report*, size_t*)
RYF_STUB(ryf_initiator_transfer_grain, ryf_initiator*, uint32_t)
RYF_STUB(ryf_initiator_transfer_slices, ryf_initiator*, uint32_t, uint32_t, uint32_t)
RYF_STUB(ryf_initiator_grain_ready, ryf_initiator*, uint32_t)
RYF_STUB(ryf_initiator_make_progress, ryf_initiator*)
RYF_STUB(ryf_initiator_make_progress_blocking, ryf_initiator*, uint32_t)
RYF_STUB(ryf_initiator_destroy, ryf_initiator*)
RYF_STUB(ryf_target_info_to_string, const ryf_target_info*, char*, size_t*)
RYF_STUB(ryf_target_info_from_string, const char*, ryf_target_info**)
RYF_STUB(ryf_target_info_id, const ryf_target_info*, char*, size_t*)
RYF_STUB(ryf_target_info_free, ryf_target_info*)

const char* ryf_last_error(void) {
    return "this is the stub library of Railyard's flow API, without a fabric: link librailyard_flow";
}
