// Failures on demand.
#pragma once

#include <cuda.h>

#include <map>
#include <mutex>
#include <string>

namespace fakecuda {

class Failures {
  public:
    /// See fakecuda_fail.
    void add(const std::string& name, unsigned nth, CUresult error);
    /// See fakecuda_fail_any.
    void add_any(unsigned nth, CUresult error, bool lasting);
    /// NAME:NTH=ERROR, comma-separated; says on stderr what it cannot read.
    void add_all(const std::string& list);
    void clear();
    /// What this call of `name` (with or without its number) must answer.
    CUresult take(std::string name);
    /// What a call of any function must answer.
    CUresult take_any(const char* name);
    /// The function whose call was the first that failed because any was to; nullptr: none was.
    [[nodiscard]] const char* any_failed();

  private:
    struct Failure {
        unsigned nth;  ///< 0: every call
        CUresult error;
    };
    std::mutex mutex_;
    std::multimap<std::string, Failure> failures_;
    Failure any_{0, CUDA_SUCCESS};
    bool any_lasts_ = false;
    const char* any_failed_ = nullptr;
};

}  // namespace fakecuda
