#include "cuda/own_stream.h"

#include "cuda/driver.h"

namespace railyard::cuda {

CUstream_st* make_own_stream(const Driver& driver) {
    CUstream stream = nullptr;
    int least = 0, greatest = 0;
    const bool priorities = driver.ctx_get_stream_priority_range && driver.stream_create_with_priority &&
                            driver.ctx_get_stream_priority_range(&least, &greatest) == CUDA_SUCCESS;
    if (priorities) {
        check(driver, driver.stream_create_with_priority(&stream, CU_STREAM_NON_BLOCKING, greatest),
              "cuStreamCreateWithPriority");
    } else {
        check(driver, driver.stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    }
    return stream;
}

}  // namespace railyard::cuda
