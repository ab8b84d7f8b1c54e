// The driver's names, exported; and what each entry point starts with.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>

#include "../control.h"
#pragma GCC visibility pop

namespace fakecuda {

/// What the call must answer at once: not initialised, or a failure that was asked for. `function` as
/// __func__ has it.
CUresult enter(const char* function);
/// The same for the few calls that work before cuInit.
CUresult enter_any_time(const char* function);

}  // namespace fakecuda

#define FAKECUDA_ENTER() \
    if (const CUresult entered = ::fakecuda::enter(__func__); entered != CUDA_SUCCESS) return entered
#define FAKECUDA_TRY(call) \
    if (const CUresult tried = (call); tried != CUDA_SUCCESS) return tried
