#include "tools/gpu_survey.h"

#include "common/status.h"
#include "cuda/driver.h"
#include "cuda/visibility.h"

namespace railyard::tools {
namespace {

const char* text_of(cuda::WritesOrdering ordering) {
    switch (ordering) {
        case cuda::WritesOrdering::none:
            return "none";
        case cuda::WritesOrdering::owner:
            return "owner";
        case cuda::WritesOrdering::all_devices:
            return "all devices";
    }
    return "unknown";
}

}  // namespace

GpuSurvey make_gpu_survey() {
    GpuSurvey survey;
    survey.built_with = cuda::built_with();
    const cuda::DriverLookup found = cuda::find_driver();
    survey.absent_because = found.absent_because;
    if (!found.driver) return survey;
    const int version = found.driver->version;
    survey.driver = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    try {
        for (const cuda::Device& device : cuda::list_devices(*found.driver)) {
            survey.gpus.push_back(
                {device, text_of(device.writes_ordering), to_string(cuda::visibility_of(device))});
        }
    } catch (const Error& error) {
        survey.gpus.clear();
        survey.absent_because = error.what();
    }
    return survey;
}

}  // namespace railyard::tools
